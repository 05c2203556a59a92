package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/doctor"
	"github.com/payonce/payonce/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// command runs payonce with arguments, as the program does.
func command(t *testing.T, stdin string, args ...string) (output string, code int) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetIn(bytes.NewBufferString(stdin))
	err := root.ExecuteContext(t.Context())
	if err == nil {
		return out.String(), 0
	}
	code, silent := exitCode(err)
	if !silent {
		out.WriteString("payonce: " + err.Error() + "\n")
	}
	return out.String(), code
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	_, err := db.Conn(t).Exec(t.Context(), `ALTER TABLE guard.idempotency_keys SET UNLOGGED`)
	require.NoError(t, err)

	text, code := command(t, "", "doctor", "--database-url", db.URL)
	require.Equal(t, exitFound, code)
	require.Contains(t, text, "PROBLEM  keys_unlogged: guard.idempotency_keys is unlogged\n  why  ")
	require.Contains(t, text, "\n  do   ALTER TABLE guard.idempotency_keys SET LOGGED;\n")
	require.NotContains(t, text, "\x1b", "no colours but on a terminal")

	asJSON, code := command(t, "", "doctor", "--json", "--database-url", db.URL)
	require.Equal(t, exitFound, code)
	var report doctor.Report
	require.NoError(t, json.Unmarshal([]byte(asJSON), &report))
	require.NotEmpty(t, report.Findings)
	require.NotContains(t, asJSON, db.URL)

	text, code = command(t, "", "doctor", "--database-url", "postgres://127.0.0.1:1/nowhere?connect_timeout=2")
	require.Equal(t, exitFailed, code)
	require.Contains(t, text, "connect to the database")
}

func TestDoctorSaysThatAllIsWell(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t, pgtest.Durable())
	text, code := command(t, "", "doctor", "--database-url", server.New(t).URL)
	require.Zero(t, code, text)
	require.Contains(t, text, "nothing has to be done")
	require.Contains(t, text, "NOTE  pg_cron_elsewhere", "notes are no reason to fail")
}

// The URL of one server may size its pool, as docs/operations.md says; the
// commands that open one connection take it too.
func TestSettingsOfThePoolInTheURL(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t).URL + "&pool_max_conns=12"
	text, code := command(t, "", "migrate", "--database-url", url)
	require.Zero(t, code, text)
	s := settings{databaseURL: url}
	require.NoError(t, s.checkSchema(t.Context(), url))
}
