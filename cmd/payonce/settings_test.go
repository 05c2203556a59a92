package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

// everyFlag calls each for every flag of every command.
func everyFlag(cmd *cobra.Command, each func(*cobra.Command, *pflag.Flag)) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { each(cmd, flag) })
	for _, below := range cmd.Commands() {
		everyFlag(below, each)
	}
}

// Every flag whose value is or may hold a secret can be given in a file.
func TestEverySecretFlagTakesAFile(t *testing.T) {
	t.Parallel()
	mayBeSecret := regexp.MustCompile(`url|password|secret|token|credential|api-?key$`)
	// What looks like a secret and is none.
	harmless := map[string]string{
		"console-password-file": "names the file itself",
	}
	found := map[string]bool{}
	everyFlag(newRoot(), func(cmd *cobra.Command, flag *pflag.Flag) {
		if !mayBeSecret.MatchString(flag.Name) || harmless[flag.Name] != "" {
			return
		}
		found[flag.Name] = true
		require.NotNil(t, flag.Annotations[secretFlag], "%s --%s", cmd.CommandPath(), flag.Name)
		require.Contains(t, flag.Usage, variable(flag)+"_FILE", "%s --%s", cmd.CommandPath(), flag.Name)
	})
	require.Equal(t, map[string]bool{
		"database-url": true, "outbox-url": true, "console-database-url": true, "api-key": true,
	}, found)
}

// Not parallel: the environment is the whole program's.
func TestDatabaseURLFromAFile(t *testing.T) {
	db := pgtest.New(t)
	path := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(path, []byte(db.URL+"\n"), 0o600))
	t.Setenv("PAYONCE_DATABASE_URL_FILE", path)
	text, code := command(t, "", "keys", "list")
	require.Zero(t, code, text)
	require.Equal(t, "no such keys\n", text)

	text, code = command(t, "", "keys", "list", "--database-url", "postgres://127.0.0.1:1/x?connect_timeout=2")
	require.Equal(t, exitFailed, code, "a flag counts for more than the environment: %s", text)
	t.Setenv("PAYONCE_DATABASE_URL", db.URL)
	text, code = command(t, "", "keys", "list")
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "PAYONCE_DATABASE_URL and PAYONCE_DATABASE_URL_FILE are both set")
	require.NotContains(t, text, db.URL)
}
