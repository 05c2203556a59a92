// Package guardsql writes the guard alone, without the payments on top of it,
// as one plain SQL file for psql.
package guardsql

import (
	_ "embed" // the frame of the file
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"text/template"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/migrations"
)

//go:embed begin.sql
var begin string

//go:embed end.sql
var end string

// guardMigration names the migrations that make the guard's tables, types and
// roles. They run again with each install and must be harmless then.
var guardMigration = regexp.MustCompile(`^\d+_guard(_\w+)?\.sql$`)

// downMigration separates the two directions of a tern migration.
const downMigration = "---- create above / drop below ----"

// Print writes the SQL that installs the guard of this program, or brings an
// older guard up to it, in one transaction.
func Print(w io.Writer) error {
	return write(w, migrations.Files(), guard.Version)
}

func write(w io.Writer, files fs.FS, version int) error {
	tables, err := tables(files)
	if err != nil {
		return err
	}
	functions, err := functions(files)
	if err != nil {
		return err
	}
	head, err := execute(template.New("begin.sql"), begin, version)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, head+tables+functions+end); err != nil {
		return fmt.Errorf("write the guard's SQL: %w", err)
	}
	return nil
}

// tables joins the guard's migrations, oldest first.
func tables(files fs.FS) (string, error) {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return "", fmt.Errorf("list migrations: %w", err)
	}
	var joined strings.Builder
	for _, entry := range entries {
		if !guardMigration.MatchString(entry.Name()) {
			continue
		}
		body, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return "", fmt.Errorf("read migration: %w", err)
		}
		up, _, _ := strings.Cut(string(body), downMigration)
		if strings.Contains(up, "{{") {
			return "", fmt.Errorf("migration %s is a template; a guard migration must be plain SQL", entry.Name())
		}
		joined.WriteString("\n" + strings.TrimSpace(up) + "\n")
	}
	return joined.String(), nil
}

// functions renders the guard's part of the newest snapshot.
func functions(files fs.FS) (string, error) {
	installs, err := fs.Glob(files, "snapshots/*/guard/install.sql")
	if err != nil || len(installs) == 0 {
		return "", fmt.Errorf("find a snapshot of the guard's functions: %w", err)
	}
	snapshot := path.Dir(path.Dir(installs[len(installs)-1]))
	names, err := fs.Glob(files, snapshot+"/guard/*.sql")
	if err != nil {
		return "", fmt.Errorf("list the guard's functions: %w", err)
	}
	set := template.New("")
	for _, name := range names {
		body, err := fs.ReadFile(files, name)
		if err != nil {
			return "", fmt.Errorf("read function: %w", err)
		}
		if _, err := set.New(strings.TrimPrefix(name, snapshot+"/")).Parse(string(body)); err != nil {
			return "", fmt.Errorf("parse %s: %w", name, err)
		}
	}
	return execute(set.New("guard"), `{{ template "guard/install.sql" . }}`, nil)
}

func execute(in *template.Template, text string, data any) (string, error) {
	parsed, err := in.Parse(text)
	if err != nil {
		return "", fmt.Errorf("parse template: %w", err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, data); err != nil {
		return "", fmt.Errorf("render template: %w", err)
	}
	return out.String(), nil
}
