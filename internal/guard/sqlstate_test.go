package guard_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
)

// sources reads the functions of a folder of sql/, by path.
func sources(t *testing.T, folder string) map[string]string {
	t.Helper()
	root := "../../sql/" + folder
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[filepath.ToSlash(path)] = string(content)
		return err
	}))
	require.NotEmpty(t, found)
	return found
}

// The registry in SQL, its mirror in Go and what the functions raise are one.
func TestSQLStateRegistry(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.New(t).AppConn(t).Query(t.Context(), "SELECT sqlstate, name, meaning FROM guard.sqlstates()")
	require.NoError(t, err)
	registry := map[string]string{}
	var code, name, meaning string
	_, err = pgx.ForEachRow(rows, []any{&code, &name, &meaning}, func() error {
		require.NotContains(t, registry, code, "listed twice")
		require.NotEmpty(t, meaning, code)
		registry[code] = name
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, registry, guard.SQLStates())

	raised := map[string]bool{}
	for path, text := range sources(t, "") {
		for _, match := range regexp.MustCompile(`ERRCODE = '(IK\w+)'`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, registry, match[1], "%s raises a code that the registry does not list", path)
			raised[match[1]] = true
		}
	}
	for code := range registry {
		require.True(t, raised[code], "%s is listed and never raised", code)
	}
}
