package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// oldestServer is the first version whose features the functions use, as
	// server_version_num.
	oldestServer = 150000
	// clockTolerance is well below the five minutes that providers allow a
	// signature's time to be off.
	clockTolerance = 5 * time.Second
)

func serverVersion(ctx context.Context, p *patient) ([]Finding, error) {
	var number int
	err := p.conn.QueryRow(ctx, `SELECT pg_catalog.current_setting('server_version_num')::pg_catalog.int4`).Scan(&number)
	if err != nil {
		return nil, fmt.Errorf("read the server's version: %w", err)
	}
	return judgeVersion(number), nil
}

func judgeVersion(number int) []Finding {
	if number >= oldestServer {
		return nil
	}
	return []Finding{ServerUnsupported.found("the server is PostgreSQL %d", number/10000)}
}

// crashSafety: https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-FSYNC
func crashSafety(ctx context.Context, p *patient) ([]Finding, error) {
	var fsync, pages string
	err := p.conn.QueryRow(ctx, `
		SELECT pg_catalog.current_setting('fsync'), pg_catalog.current_setting('full_page_writes')`).Scan(&fsync, &pages)
	if err != nil {
		return nil, fmt.Errorf("read the server's settings: %w", err)
	}
	var found []Finding
	if fsync == "off" {
		found = append(found, FsyncOff.found("fsync is off"))
	}
	if pages == "off" {
		found = append(found, FullPageWritesOff.found("full_page_writes is off"))
	}
	return found, nil
}

// commitSettings are the values of synchronous_commit that matter: this
// session's, unless a setting of the role or database made it, and those of
// each role and database that a server could work with here.
const commitSettings = `
SELECT s.setting, 'here, by ' || s.source
  FROM pg_catalog.pg_settings AS s
 WHERE s.name = 'synchronous_commit' AND s.source NOT IN ('database', 'user', 'database user')
UNION ALL
SELECT pg_catalog.split_part(c.entry, '=', 2),
       'for ' || pg_catalog.concat_ws(' in ', 'role ' || r.rolname, 'database ' || d.datname)
  FROM pg_catalog.pg_db_role_setting AS s
 CROSS JOIN LATERAL pg_catalog.unnest(s.setconfig) AS c (entry)
  LEFT JOIN pg_catalog.pg_database AS d ON d.oid = s.setdatabase
  LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.setrole
 WHERE pg_catalog.split_part(c.entry, '=', 1) = 'synchronous_commit'
   AND (s.setdatabase = 0 OR d.datname = pg_catalog.current_database())
 ORDER BY 2`

// synchronousCommit: https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-SYNCHRONOUS-COMMIT
func synchronousCommit(ctx context.Context, p *patient) ([]Finding, error) {
	names, err := synchronousNames(ctx, p)
	if err != nil {
		return nil, err
	}
	rows, err := p.conn.Query(ctx, commitSettings)
	if err != nil {
		return nil, fmt.Errorf("read synchronous_commit: %w", err)
	}
	var found []Finding
	var value, place string
	_, err = pgx.ForEachRow(rows, []any{&value, &place}, func() error {
		switch strings.ToLower(value) {
		case "off", "false", "no", "0":
			found = append(found, CommitOff.found("synchronous_commit is off %s", place))
		case "local", "remote_write":
			if names != "" {
				found = append(found, CommitNotReplicated.found("synchronous_commit is %s %s, with synchronous_standby_names = %s",
					value, place, names))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read synchronous_commit: %w", err)
	}
	return found, nil
}

func synchronousNames(ctx context.Context, p *patient) (string, error) {
	var names string
	err := p.conn.QueryRow(ctx, `SELECT pg_catalog.current_setting('synchronous_standby_names')`).Scan(&names)
	if err != nil {
		return "", fmt.Errorf("read synchronous_standby_names: %w", err)
	}
	return names, nil
}

func readOnly(ctx context.Context, p *patient) ([]Finding, error) {
	var recovering bool
	var setting string
	err := p.conn.QueryRow(ctx, `
		SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('default_transaction_read_only')`).
		Scan(&recovering, &setting)
	if err != nil {
		return nil, fmt.Errorf("ask whether the server takes writes: %w", err)
	}
	switch {
	case recovering:
		return []Finding{OnStandby.found("this server is a standby")}, nil
	case setting == "on":
		return []Finding{ReadOnly.found("default_transaction_read_only is on for this role in this database")}, nil
	}
	return nil, nil
}

func walLevel(ctx context.Context, p *patient) ([]Finding, error) {
	var level string
	if err := p.conn.QueryRow(ctx, `SELECT pg_catalog.current_setting('wal_level')`).Scan(&level); err != nil {
		return nil, fmt.Errorf("read wal_level: %w", err)
	}
	if level != "minimal" {
		return nil, nil
	}
	return []Finding{WALMinimal.found("wal_level is minimal")}, nil
}

// pooler: a pooler tells its client a process id of its own making, for
// cancelling, and the server another.
func pooler(ctx context.Context, p *patient) ([]Finding, error) {
	var backend uint32
	if err := p.conn.QueryRow(ctx, `SELECT pg_catalog.pg_backend_pid()`).Scan(&backend); err != nil {
		return nil, fmt.Errorf("ask for the session's process: %w", err)
	}
	if backend == p.conn.PgConn().PID() {
		return nil, nil
	}
	return []Finding{Pooler.found("the session's process is not the one that the connection was told")}, nil
}

// clock compares the two clocks, to within half of the round trip.
func clock(ctx context.Context, p *patient) ([]Finding, error) {
	var there time.Time
	before := p.now()
	if err := p.conn.QueryRow(ctx, `SELECT pg_catalog.clock_timestamp()`).Scan(&there); err != nil {
		return nil, fmt.Errorf("ask for the server's time: %w", err)
	}
	after := p.now()
	ahead := there.Sub(after)
	if behind := before.Sub(there); behind > ahead {
		ahead = behind
	}
	if ahead <= clockTolerance {
		return nil, nil
	}
	return []Finding{ClockSkew.found("this machine's clock and the database's differ by %s", ahead.Round(time.Second))}, nil
}
