// Package sql_test runs the examples of docs/sql.md against the real drivers.
package sql_test

import (
	"bytes"
	"flag"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pgtest"
)

var update = flag.Bool("update", false, "write the outputs and the code blocks of docs/sql.md anew")

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestExamples(t *testing.T) {
	t.Parallel()
	for _, example := range []struct {
		file    string
		command func(*testing.T, *url.URL) *exec.Cmd
	}{
		{"psql/example.sql", psql},
		{"python/example.py", python},
		{"node/example.js", node},
		{"java/Example.java", java},
	} {
		t.Run(filepath.Dir(example.file), func(t *testing.T) {
			t.Parallel()
			database, err := url.Parse(pgtest.New(t).AppURL)
			require.NoError(t, err)
			command := example.command(t, database)
			command.Args = append(command.Args, example.file)
			var stderr bytes.Buffer
			command.Stderr = &stderr
			output, err := command.Output()
			require.NoError(t, err, "%s\n%s", output, stderr.String())
			require.Empty(t, stderr.String())

			expected := strings.TrimSuffix(example.file, filepath.Ext(example.file)) + ".out"
			if *update {
				require.NoError(t, os.WriteFile(expected, output, 0o600))
			}
			want, err := os.ReadFile(expected)
			require.NoError(t, err)
			require.Equal(t, string(want), string(output))
		})
	}
}

func psql(t *testing.T, database *url.URL) *exec.Cmd {
	require.True(t, installed("psql"), "install psql: apt-get install postgresql-client")
	return exec.CommandContext(t.Context(), "psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", database.String(), "-f")
}

func python(t *testing.T, database *url.URL) *exec.Cmd {
	for _, interpreter := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(t.Context(), interpreter, "-c", "import psycopg").Run() == nil {
			command := exec.CommandContext(t.Context(), interpreter)
			command.Env = append(os.Environ(), libpq(database)...)
			return command
		}
	}
	require.Fail(t, "no Python has psycopg 3, install it: apt-get install python3-psycopg")
	return nil
}

func node(t *testing.T, database *url.URL) *exec.Cmd {
	require.True(t, installed("node"), "install Node.js: apt-get install nodejs npm")
	folder, err := exec.CommandContext(t.Context(), "../../scripts/node-driver.sh", "path").Output()
	require.NoError(t, err)
	modules := strings.TrimSpace(string(folder))
	require.FileExists(t, filepath.Join(filepath.Dir(modules), "complete"),
		"the driver pg is not installed, install it: scripts/node-driver.sh")
	command := exec.CommandContext(t.Context(), "node")
	command.Env = append(append(os.Environ(), "NODE_PATH="+modules), libpq(database)...)
	return command
}

func java(t *testing.T, database *url.URL) *exec.Cmd {
	const driver = "/usr/share/java/postgresql.jar"
	require.True(t, installed("javac"), "install a JDK: apt-get install default-jdk-headless")
	require.FileExists(t, driver, "the JDBC driver is not installed, install it: apt-get install libpostgresql-jdbc-java")
	password, _ := database.User.Password()
	query := database.Query()
	query.Set("user", database.User.Username())
	query.Set("password", password)
	jdbc := url.URL{Scheme: "jdbc:postgresql", Host: database.Host, Path: database.Path, RawQuery: query.Encode()}
	command := exec.CommandContext(t.Context(), "java", "-cp", driver)
	command.Env = append(os.Environ(), "JDBC_URL="+jdbc.String())
	return command
}

func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// libpq is a database as the environment of libpq's kin names it.
func libpq(database *url.URL) []string {
	password, _ := database.User.Password()
	return []string{
		"PGHOST=" + database.Hostname(), "PGPORT=" + database.Port(), "PGDATABASE=" + strings.TrimPrefix(database.Path, "/"),
		"PGUSER=" + database.User.Username(), "PGPASSWORD=" + password,
	}
}

// shown finds a file in docs/sql.md: a comment that names it, then its content
// as a code block.
var shown = regexp.MustCompile("(?s)<!-- file: (\\S+) -->\n+(```\\w*)\n(.*?)\n```\n")

func TestDocsShowTheExamples(t *testing.T) {
	t.Parallel()
	const page = "../../docs/sql.md"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	if *update {
		text = shown.ReplaceAllFunc(text, func(block []byte) []byte {
			parts := shown.FindSubmatch(block)
			return []byte("<!-- file: " + string(parts[1]) + " -->\n\n" + string(parts[2]) + "\n" + read(t, string(parts[1])) + "```\n")
		})
		require.NoError(t, os.WriteFile(page, text, 0o600))
	}

	found := map[string]string{}
	for _, parts := range shown.FindAllSubmatch(text, -1) {
		found[string(parts[1])] = string(parts[3]) + "\n"
	}
	require.Len(t, found, 8, "four programs and their outputs")
	for file, content := range found {
		require.Equal(t, read(t, file), content, file)
	}
}

func TestDocsListTheRegistry(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.New(t).Conn(t).Query(t.Context(), "SELECT format('| %s | %s | %s |', sqlstate, name, meaning) FROM guard.sqlstates()")
	require.NoError(t, err)
	registry, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, registry, regexp.MustCompile(`(?m)^\| IK.*$`).FindAllString(read(t, "docs/sql.md"), -1))
}

func TestDocsNameEveryFunction(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.New(t).Conn(t).Query(t.Context(), `
		SELECT format('guard.%s(%s)', p.proname, array_to_string(p.proargnames[:p.pronargs], ', '))
		  FROM pg_proc AS p
		 WHERE p.pronamespace = 'guard'::regnamespace
		   AND obj_description(p.oid, 'pg_proc') NOT LIKE 'Internal:%'`)
	require.NoError(t, err)
	functions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, functions)
	page := read(t, "docs/sql.md")
	for _, function := range functions {
		require.True(t, strings.Contains(page, function), "docs/sql.md does not name %s", function)
	}
}

func read(t *testing.T, file string) string {
	content, err := os.ReadFile(filepath.Join("../..", file))
	require.NoError(t, err)
	return string(content)
}
