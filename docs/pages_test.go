package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// pages are all pages of the repository, by path from here.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		content, err := os.ReadFile(path)
		found[path] = string(content)
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(found), 20)
	return found
}

var (
	fences   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inline   = regexp.MustCompile("`[^`\n]*`")
	links    = regexp.MustCompile(`\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$`)
	headings = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// anchors are what a heading can be reached by.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, heading := range headings.FindAllStringSubmatch(fences.ReplaceAllString(page, ""), -1) {
		var anchor strings.Builder
		for _, r := range strings.ToLower(strings.TrimSpace(heading[1])) {
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				anchor.WriteRune(r)
			case r == ' ':
				anchor.WriteRune('-')
			}
		}
		all[anchor.String()] = true
	}
	for _, id := range regexp.MustCompile(`<a (?:id|name)="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		all[id[1]] = true
	}
	return all
}

// Every link between pages leads to something.
func TestLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	followed := 0
	for path, page := range all {
		text := inline.ReplaceAllString(fences.ReplaceAllString(page, ""), "")
		for line := range strings.Lines(text) {
			for _, link := range links.FindAllStringSubmatch(strings.TrimSuffix(line, "\n"), -1) {
				target := link[1] + link[2]
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				followed++
				file, anchor, _ := strings.Cut(target, "#")
				to := path
				if file != "" {
					to = filepath.Join(filepath.Dir(path), file)
				}
				_, err := os.Stat(to)
				require.NoError(t, err, "%s links to %s", path, target)
				if anchor != "" && filepath.Ext(to) == ".md" {
					require.True(t, anchors(all[to])[anchor], "%s links to %s, which has no such heading", path, target)
				}
			}
		}
	}
	require.Greater(t, followed, 100)
}

// Every target of make that a page names is one.
func TestMakeTargets(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, target := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		targets[target[1]] = true
	}
	named := 0
	for path, page := range pages(t) {
		for _, use := range regexp.MustCompile("(?:^|\n|`)make ([a-z-]+)").FindAllStringSubmatch(page, -1) {
			named++
			require.True(t, targets[use[1]], "%s names make %s", path, use[1])
		}
	}
	require.Greater(t, named, 8)
}
