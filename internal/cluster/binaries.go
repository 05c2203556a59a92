package cluster

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNoBinaries says what to install.
var ErrNoBinaries = errors.New("no PostgreSQL server is installed here: install it (Debian, Ubuntu: `apt-get install postgresql`; " +
	"Homebrew: `brew install postgresql@17`), or name a database with --database-url")

// places are where packages put PostgreSQL's server programs.
var places = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

// binaries is one installation of PostgreSQL.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// cronSettings preload pg_cron where it is installed. Its jobs run in
// background workers, since its connections would need the password.
func (b binaries) cronSettings(database string) map[string]string {
	library := filepath.Join(filepath.Dir(b.dir), "lib", "pg_cron.so")
	if output, err := exec.Command(b.path("pg_config"), "--pkglibdir").Output(); err == nil { //nolint:noctx // prints and ends
		library = filepath.Join(strings.TrimSpace(string(output)), "pg_cron.so")
	}
	if _, err := os.Stat(library); err != nil {
		return map[string]string{}
	}
	return map[string]string{
		"shared_preload_libraries":    "pg_cron",
		"cron.database_name":          database,
		"cron.use_background_workers": "on",
	}
}

var versionNumber = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// findBinaries lists the installations of this machine, newest first, or only
// the one in dir.
func findBinaries(ctx context.Context, dir string) ([]binaries, error) {
	candidates := []string{dir}
	if dir == "" {
		candidates = nil
		for _, place := range places {
			found, _ := filepath.Glob(place)
			candidates = append(candidates, found...)
		}
		if path, err := exec.LookPath("postgres"); err == nil {
			if path, err = filepath.EvalSymlinks(path); err == nil {
				candidates = append(candidates, filepath.Dir(path))
			}
		}
	}
	var found []binaries
	for _, candidate := range candidates {
		if _, err := os.Stat(filepath.Join(candidate, "initdb")); err != nil {
			continue
		}
		output, err := exec.CommandContext(ctx, filepath.Join(candidate, "postgres"), "--version").Output()
		if err != nil {
			continue
		}
		if match := versionNumber.FindSubmatch(output); match != nil {
			major, _ := strconv.Atoi(string(match[1]))
			found = append(found, binaries{dir: candidate, major: major})
		}
	}
	if len(found) == 0 {
		return nil, ErrNoBinaries
	}
	slices.SortStableFunc(found, func(a, b binaries) int { return b.major - a.major })
	return found, nil
}
