package proxy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func manual(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/proxy.md")
	require.NoError(t, err)
	return string(page)
}

// The table of docs/proxy.md is the table that decides.
func TestDocumentedEnds(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (store|release|in_doubt) \\|")
	documented := map[string]Meaning{}
	for _, cells := range row.FindAllStringSubmatch(manual(t), -1) {
		documented[cells[1]] = Meaning(cells[2])
	}
	decides := map[string]Meaning{}
	for _, each := range ends {
		decides[each.name] = each.meaning
	}
	for name, meaning := range brokenEnds {
		decides[name] = meaning
	}
	require.Equal(t, decides, documented)
}

// Each file that docs/proxy.md shows stands there as it is.
func TestDocumentedFiles(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)<!-- file: (\\S+) -->\\n```\\w+\\n(.*?)```")
	shown := block.FindAllStringSubmatch(manual(t), -1)
	require.Len(t, shown, 3)
	for _, each := range shown {
		content, err := os.ReadFile("../../" + each[1])
		require.NoError(t, err)
		require.Equal(t, string(content), each[2], each[1])
	}
}

// Every setting of a routes file is explained, and the example is one.
func TestDocumentedRoutes(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../deploy/proxy/routes.yaml")
	require.NoError(t, err)
	config, err := ParseConfig(content)
	require.NoError(t, err)
	require.NotEmpty(t, config.Routes)
	page := manual(t)
	source, err := os.ReadFile("config.go")
	require.NoError(t, err)
	settings := regexp.MustCompile("`yaml:\"([a-z_]+)\"`").FindAllStringSubmatch(string(source), -1)
	require.Greater(t, len(settings), 15)
	for _, setting := range settings {
		require.True(t, strings.Contains(page, "| `"+setting[1]+"` |"), "docs/proxy.md does not explain %s", setting[1])
	}
}
