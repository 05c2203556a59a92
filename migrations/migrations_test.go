package migrations_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// tree reads every file below a folder.
func tree(t *testing.T, root string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		files[filepath.ToSlash(name)] = content
		return err
	}))
	require.NotEmpty(t, files)
	return files
}

// Until the first release the one snapshot is what sql/ says.
func TestSnapshotHasNotDrifted(t *testing.T) {
	t.Parallel()
	living, snapshot := tree(t, "../sql"), tree(t, "snapshots/003_functions")
	for name, content := range living {
		require.True(t, bytes.Equal(content, snapshot[name]), "sql/%s differs from its snapshot: run make snapshot", name)
	}
	require.Len(t, snapshot, len(living), "the snapshot has a file that sql/ has not: run make snapshot")
}

// tern copies every file of a snapshot, cuts a migration at its marker even
// inside a function, and renders a missing value as text without a word.
func TestSQLKeepsOutOfTernsWay(t *testing.T) {
	t.Parallel()
	template := regexp.MustCompile(`\{\{ template "[a-z_/]+\.sql" \. \}\}`)
	files := tree(t, "../sql")
	for name, content := range files {
		require.Equal(t, ".sql", filepath.Ext(name), "sql/%s: only SQL may live there", name)
		text := string(content)
		if filepath.Base(name) == "install.sql" {
			text = template.ReplaceAllString(text, "")
		}
		require.NotContains(t, text, "{{", name)
		require.NotContains(t, text, "create above / drop below", name)
		require.NotContains(t, text, "<no value>", name)
	}
	for _, schema := range []string{"guard", "payments"} {
		install := string(files[schema+"/install.sql"])
		for name := range files {
			if strings.HasPrefix(name, schema+"/") && !strings.HasSuffix(name, "install.sql") {
				require.Equal(t, 1, strings.Count(install, `"`+name+`"`), "%s/install.sql must name %s once", schema, name)
			}
		}
	}
}

func TestApplyTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	have, want, err := migrations.Versions(t.Context(), db.Conn(t))
	require.NoError(t, err)
	require.Zero(t, have)
	require.Positive(t, want)
	var wait sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		conn := db.Conn(t)
		wait.Go(func() { errs[i] = migrations.Apply(t.Context(), conn) })
	}
	wait.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.NoError(t, migrations.Apply(t.Context(), db.Conn(t)))
	have, _, err = migrations.Versions(t.Context(), db.Conn(t))
	require.NoError(t, err)
	require.Equal(t, want, have)
}

// The server works as a member of payonce_app and has to see which schema it has.
func TestTheServersRoleReadsTheVersion(t *testing.T) {
	t.Parallel()
	have, want, err := migrations.Versions(t.Context(), pgtest.New(t).AppConn(t))
	require.NoError(t, err)
	require.Equal(t, want, have)
	newest, err := migrations.Newest()
	require.NoError(t, err)
	require.Equal(t, want, newest)
}
