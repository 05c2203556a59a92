package guardsql

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestFileIsPlainSQL(t *testing.T) {
	t.Parallel()
	file := current(t)
	for _, found := range []struct{ what, pattern string }{
		{"a template", `\{\{`},
		{"a way down", `---- create above`},
		{"a psql command", `(?m)^\\`},
		{"a character that depends on the client's encoding", `[^\x00-\x7F]`},
		{"the payments", `payments\.`},
	} {
		require.Empty(t, regexp.MustCompile(found.pattern).FindString(file), found.what)
	}
	require.Regexp(t, `(?s)\A(--[^\n]*\n|\n)*BEGIN .*\nCOMMIT;\n\z`, file)
	require.Len(t, regexp.MustCompile(`(?m)^(BEGIN .*|COMMIT);$`).FindAllString(file, -1), 2, "one transaction")
}

func TestAFaultInTheSourcesIsAnError(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]fstest.MapFS{
		"no snapshot": {"001_guard.sql": {}},
		"a template among the tables": {
			"001_guard.sql":                   {Data: []byte(`{{ install_snapshot "002" }}`)},
			"snapshots/002/guard/install.sql": {},
		},
		"a function that is missing": {
			"snapshots/002/guard/install.sql": {Data: []byte(`{{ template "guard/claim.sql" . }}`)},
		},
	} {
		var out bytes.Buffer
		require.Error(t, write(&out, files, 1), name)
		require.Empty(t, out.String(), name)
	}
}

func TestVersionIsMirrored(t *testing.T) {
	t.Parallel()
	var version int
	conn := pgtest.New(t).AppConn(t)
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT guard.version()").Scan(&version))
	require.Equal(t, guard.Version, version)
}

func TestVersionGrowsWithTheGuard(t *testing.T) {
	t.Parallel()
	require.NoError(t, versionsGrow(migrations.Files()))

	// A check that cannot fail checks nothing.
	changed := next(t)
	changed["snapshots/999_functions/guard/version.sql"] = changed["snapshots/003_functions/guard/version.sql"]
	require.Error(t, versionsGrow(changed))
}

// versionsGrow tells whether each snapshot that changes the guard has a higher
// version than the one before it.
func versionsGrow(files fs.FS) error {
	installs, err := fs.Glob(files, "snapshots/*/guard/install.sql")
	if err != nil {
		return err
	}
	var before string
	var beforeVersion int
	for _, install := range installs {
		now, version, err := snapshotContent(files, strings.TrimSuffix(install, "/install.sql"))
		if err != nil {
			return err
		}
		if before != "" && now != before && version <= beforeVersion {
			return fmt.Errorf("%s differs from the snapshot before it and has no higher version", install)
		}
		before, beforeVersion = now, version
	}
	return nil
}

var versionNumber = regexp.MustCompile(`RETURN (\d+);`)

func snapshotContent(files fs.FS, dir string) (content string, version int, err error) {
	names, err := fs.Glob(files, dir+"/*.sql")
	if err != nil {
		return "", 0, err
	}
	var all strings.Builder
	for _, name := range names {
		body, err := fs.ReadFile(files, name)
		if err != nil {
			return "", 0, err
		}
		all.WriteString(strings.TrimPrefix(name, dir) + "\n" + string(body))
		if found := versionNumber.FindSubmatch(body); found != nil && strings.HasSuffix(name, "/version.sql") {
			if version, err = strconv.Atoi(string(found[1])); err != nil {
				return "", 0, err
			}
		}
	}
	return all.String(), version, nil
}

func TestInstallByARoleThatMayCreateASchema(t *testing.T) {
	t.Parallel()
	owner := newOwner(t)
	db := pgtest.Empty(t)
	exec1(t, db.Conn(t), `DO $do$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO `+owner.name+`', current_database()); END $do$`)

	install(t, owner.in(db), current(t))
	requireWorks(t, db)
}

func TestInstallByARoleThatWasGivenTheSchema(t *testing.T) {
	t.Parallel()
	owner := newOwner(t)
	db := pgtest.Empty(t)
	exec1(t, db.Conn(t), "CREATE SCHEMA guard AUTHORIZATION "+owner.name)

	install(t, owner.in(db), current(t))
	install(t, owner.in(db), current(t))
	requireWorks(t, db)
}

func TestInstallByASuperuserLeavesEverythingToTheOwner(t *testing.T) {
	t.Parallel()
	owner := newOwner(t)
	db := pgtest.Empty(t)
	conn := db.Conn(t)
	exec1(t, conn, "CREATE SCHEMA guard AUTHORIZATION "+owner.name)

	install(t, db.URL, current(t))
	install(t, db.URL, current(t))

	requireWorks(t, db)
	var owners []string
	require.NoError(t, conn.QueryRow(t.Context(), `
		SELECT array_agg(DISTINCT pg_get_userbyid(o.owner)::text)
		  FROM (SELECT proowner FROM pg_proc WHERE pronamespace = 'guard'::regnamespace
		        UNION ALL
		        SELECT relowner FROM pg_class WHERE relnamespace = 'guard'::regnamespace) AS o (owner)`).Scan(&owners))
	require.Equal(t, []string{owner.name}, owners)
}

func TestInstallWithoutTheRightsSaysWhatToDo(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	db := server.Empty(t)
	conn := db.Conn(t)
	exec1(t, conn, "ALTER ROLE payonce_app RENAME TO payonce_app_elsewhere")
	exec1(t, conn, "CREATE ROLE plain LOGIN PASSWORD 'plain'")
	plain := role{"plain"}.in(db)

	output, err := psql(t, plain, current(t))
	require.Error(t, err)
	require.Contains(t, output, "permission denied for database")

	exec1(t, conn, `DO $do$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO plain', current_database()); END $do$`)
	output, err = psql(t, plain, current(t))
	require.Error(t, err)
	require.Contains(t, output, "role payonce_app does not exist and plain may not create it")
	require.Contains(t, output, "CREATE ROLE payonce_app NOLOGIN;")
	require.False(t, hasGuard(t, conn), "an install is all or nothing")

	exec1(t, conn, "CREATE ROLE payonce_app NOLOGIN")
	install(t, plain, current(t))
	require.True(t, hasGuard(t, conn))
}

func TestInstallTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	install(t, db.URL, current(t))
	requireWorks(t, db)
	before := dump(t, db)

	install(t, db.URL, current(t))

	require.Equal(t, before, dump(t, db))
	var keys int
	require.NoError(t, db.Conn(t).QueryRow(t.Context(), "SELECT count(*) FROM guard.idempotency_keys").Scan(&keys))
	require.Equal(t, 1, keys, "the key is kept")
}

func TestInstallIsWhatMigrationsMake(t *testing.T) {
	t.Parallel()
	installed := pgtest.Empty(t)
	install(t, installed.URL, current(t))
	require.Equal(t, dump(t, migrated(t)), dump(t, installed))
}

func TestMigrateOverAnInstall(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	install(t, db.URL, current(t))
	require.NoError(t, migrations.Apply(t.Context(), db.Conn(t)))
	requireWorks(t, db)
	require.Equal(t, dump(t, migrated(t)), dump(t, db))
}

func TestInstallByManyAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	file := current(t)
	migrator := db.Conn(t)

	var everybody sync.WaitGroup
	errs := make([]error, 5)
	for i := range errs[1:] {
		everybody.Go(func() {
			if output, err := psql(t, db.URL, file); err != nil {
				errs[1+i] = fmt.Errorf("%w: %s", err, output)
			}
		})
	}
	everybody.Go(func() { errs[0] = migrations.Apply(t.Context(), migrator) })
	everybody.Wait()

	for _, err := range errs {
		require.NoError(t, err)
	}
	requireWorks(t, db)
	require.Equal(t, dump(t, migrated(t)), dump(t, db))
}

func TestInstallAndTrafficDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	const claim = `SELECT outcome FROM guard.claim(
		p_scope => 's', p_key => $1, p_request_path => 'POST /p', p_request_hash => sha256('b'))`
	service := db.AppConn(t)
	exec1(t, service, "SET lock_timeout = '10s'; BEGIN")
	_, err := service.Exec(t.Context(), claim, "open before the install")
	require.NoError(t, err)

	installer := db.Conn(t)
	exec1(t, installer, "SET lock_timeout = '10s'")
	unfinished, found := strings.CutSuffix(current(t), "COMMIT;\n")
	require.True(t, found)
	exec1(t, installer, unfinished)

	_, err = service.Exec(t.Context(), claim, "new during the install")
	require.NoError(t, err)
	exec1(t, service, "COMMIT")
	exec1(t, installer, "COMMIT")
	requireWorks(t, db)
}

func TestUpgradeInPlace(t *testing.T) {
	t.Parallel()
	newer := render(t, next(t), guard.Version+1)
	fresh := pgtest.Empty(t)
	install(t, fresh.URL, newer)

	db := pgtest.Empty(t)
	install(t, db.URL, current(t))
	requireWorks(t, db)
	require.NotEqual(t, dump(t, fresh), dump(t, db))

	install(t, db.URL, newer)
	require.Equal(t, dump(t, fresh), dump(t, db), "an upgrade makes what a fresh install makes")
	install(t, db.URL, newer)
	require.Equal(t, dump(t, fresh), dump(t, db))

	conn := db.AppConn(t)
	var completed, version int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT completed, version FROM guard.stats()").Scan(&completed, &version))
	require.Equal(t, 1, completed, "the key is kept")
	require.Equal(t, guard.Version+1, version, "a function's result may change")

	output, err := psql(t, db.URL, current(t))
	require.Error(t, err, "an older file")
	require.Contains(t, output, fmt.Sprintf("guard version %d is installed", guard.Version+1))
	require.Equal(t, dump(t, fresh), dump(t, db))
}

// next is a later release: a column more, a function less, one with another
// result and one with another body.
func next(t *testing.T) fstest.MapFS {
	files := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(migrations.Files(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := fs.ReadFile(migrations.Files(), path)
		files[path] = &fstest.MapFile{Data: body}
		if changed, ok := strings.CutPrefix(path, "snapshots/003_functions/"); ok {
			files["snapshots/999_functions/"+changed] = &fstest.MapFile{Data: body}
		}
		return err
	}))
	files["998_guard_next.sql"] = &fstest.MapFile{Data: []byte(`
ALTER TABLE guard.idempotency_keys ADD COLUMN IF NOT EXISTS note text;
DROP FUNCTION IF EXISTS guard.is_held(text, text);
DO $do$
BEGIN
    IF NOT pg_catalog.pg_get_function_result(pg_catalog.to_regprocedure('guard.stats()')) LIKE '%version%' THEN
        DROP FUNCTION guard.stats();
    END IF;
END;
$do$;
---- create above / drop below ----
DROP SCHEMA guard CASCADE;`)}
	in := func(name string) string { return "snapshots/999_functions/guard/" + name }
	edit := func(name, from, to string) {
		body := string(files[in(name)].Data)
		require.Contains(t, body, from)
		files[in(name)] = &fstest.MapFile{Data: []byte(strings.Replace(body, from, to, 1))}
	}
	delete(files, in("is_held.sql"))
	edit("install.sql", `{{ template "guard/is_held.sql" . }}`, "")
	edit("grants.sql", "    guard.is_held(text, text),\n", "")
	edit("version.sql", fmt.Sprintf("RETURN %d", guard.Version), fmt.Sprintf("RETURN %d", guard.Version+1))
	edit("stats.sql", "total                 bigint", "version               int,\n    total                 bigint")
	edit("stats.sql", "SELECT count(*),", "SELECT guard.version(), count(*),")
	edit("extend.sql", "RETURN FOUND;", "RETURN FOUND; -- by this release")
	return files
}

func TestUninstall(t *testing.T) {
	t.Parallel()
	db := pgtest.Empty(t)
	conn := db.Conn(t)
	install(t, db.URL, current(t))

	const statement = "DROP SCHEMA guard CASCADE;"
	require.Contains(t, current(t), statement, "the head of the file says how")
	exec1(t, conn, statement)

	require.False(t, hasGuard(t, conn))
	var rights int
	require.NoError(t, conn.QueryRow(t.Context(), `
		SELECT count(*)
		  FROM pg_shdepend AS d
		 WHERE d.refobjid = 'payonce_app'::regrole
		   AND d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&rights))
	require.Zero(t, rights, "nothing here keeps the role from being dropped")
	install(t, db.URL, current(t))
	requireWorks(t, db)
}

func current(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, Print(&out))
	return out.String()
}

func render(t *testing.T, files fs.FS, version int) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, write(&out, files, version))
	return out.String()
}

func install(t *testing.T, url, file string) {
	t.Helper()
	output, err := psql(t, url, file)
	require.NoError(t, err, output)
	require.Empty(t, output, "an install says nothing when all is well")
}

// psql runs a file as its readers do.
func psql(t *testing.T, url, file string) (output string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url)
	command.Stdin = strings.NewReader(file)
	combined, err := command.CombinedOutput()
	return string(combined), err
}

// dump is schema guard as pg_dump writes it, without the random key that a
// dump has since 15.14.
func dump(t *testing.T, db *pgtest.DB) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "pg_dump", "--schema-only", "--schema=guard", "--dbname="+db.URL).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return regexp.MustCompile(`(?m)^\\(un)?restrict .*$`).ReplaceAllString(string(output), "")
}

func requireWorks(t *testing.T, db *pgtest.DB) {
	t.Helper()
	conn := db.AppConn(t)
	var outcome string
	require.NoError(t, conn.QueryRow(t.Context(), `
		SELECT d.outcome
		  FROM guard.claim(p_scope => 's', p_key => 'k', p_request_path => 'POST /p', p_request_hash => sha256('b')) AS c,
		       guard.complete(p_scope => 's', p_key => 'k', p_fence => c.fence, p_status => 200, p_headers => NULL, p_body => NULL) AS d`,
	).Scan(&outcome))
	require.Equal(t, "completed", outcome)
}

func hasGuard(t *testing.T, conn *pgx.Conn) (has bool) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT to_regnamespace('guard') IS NOT NULL").Scan(&has))
	return has
}

func exec1(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

// role is a login role whose password is its name.
type role struct{ name string }

// newOwner makes a role that has no rights yet. Databases that are made later
// are dropped before it.
func newOwner(t *testing.T) role {
	t.Helper()
	admin := pgtest.Empty(t).Conn(t)
	owner := role{"payonce_owner_" + strings.ToLower(t.Name())}
	exec1(t, admin, "DROP ROLE IF EXISTS "+owner.name)
	exec1(t, admin, fmt.Sprintf("CREATE ROLE %[1]s LOGIN PASSWORD '%[1]s'", owner.name))
	t.Cleanup(func() {
		_, err := admin.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+owner.name)
		require.NoError(t, err)
	})
	return owner
}

// in is the URL of a database as this role.
func (r role) in(db *pgtest.DB) string {
	database, err := url.Parse(db.URL)
	if err != nil {
		return db.URL
	}
	database.User = url.UserPassword(r.name, r.name)
	return database.String()
}

// migrated is a database as the migrations make it, without the constraints
// that the other tests run with.
func migrated(t *testing.T) *pgtest.DB {
	t.Helper()
	db := pgtest.Empty(t)
	require.NoError(t, migrations.Apply(t.Context(), db.Conn(t)))
	return db
}
