// Package docs_test holds the documentation against the tree.
package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	guarantee    = regexp.MustCompile(`(?m)^\| G(\d+) \| (.+) \| (.+) \|$`)
	testName     = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	fault        = regexp.MustCompile(`FF-?\d\d`)
)

func TestGuaranteesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("guarantees.md")
	require.NoError(t, err)
	require.NoError(t, compare(string(text), inTree(t)))
}

func TestGuaranteesAreHeldAgainstTheTree(t *testing.T) {
	t.Parallel()
	tests := tree{tests: map[string]bool{"TestA": true}, faults: map[string]bool{"FF01": true}}
	require.NoError(t, compare("| G1 | One. | `TestA`; FF-01 |\n| G2 | Two. | `TestA` |\n", tests))
	for name, page := range map[string]string{
		"no guarantee":               "",
		"a number left out":          "| G2 | Two. | `TestA` |\n",
		"no test":                    "| G1 | One. | none |\n",
		"a test that does not exist": "| G1 | One. | `TestA`, `TestB` |\n",
		"one outside the table":      "| G1 | One. | `TestA` |\n\n`TestB` too.\n",
		"a fault that no test has":   "| G1 | One. | `TestA`; FF-02 |\n",
	} {
		require.Error(t, compare(page, tests), name)
	}
}

// tree is what the test files of this module have.
type tree struct{ tests, faults map[string]bool }

func compare(page string, has tree) error {
	rows := guarantee.FindAllStringSubmatch(page, -1)
	if len(rows) == 0 {
		return fmt.Errorf("no guarantees found")
	}
	for i, row := range rows {
		if row[1] != fmt.Sprint(i+1) {
			return fmt.Errorf("G%s stands at place %d", row[1], i+1)
		}
		if !testName.MatchString(row[3]) {
			return fmt.Errorf("G%s names no test", row[1])
		}
	}
	for _, name := range testName.FindAllStringSubmatch(page, -1) {
		if !has.tests[name[1]] {
			return fmt.Errorf("%s does not exist", name[1])
		}
	}
	for _, id := range fault.FindAllString(page, -1) {
		if !has.faults[canonical(id)] {
			return fmt.Errorf("no test carries %s", id)
		}
	}
	return nil
}

func canonical(fault string) string { return strings.ReplaceAll(fault, "-", "") }

func inTree(t *testing.T) tree {
	t.Helper()
	found := tree{tests: map[string]bool{}, faults: map[string]bool{}}
	require.NoError(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == "../docs" {
			return fs.SkipDir // these tests name faults and tests of no other
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range testFunction.FindAllSubmatch(text, -1) {
			found.tests[string(name[1])] = true
		}
		for _, id := range fault.FindAll(text, -1) {
			found.faults[canonical(string(id))] = true
		}
		return nil
	}))
	return found
}
