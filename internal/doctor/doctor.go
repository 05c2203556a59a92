// Package doctor looks at a database and its server for what endangers the
// guard's promise, or will: settings that lose a committed claim, a schema
// that the program was not made for, work that nobody does.
//
// It reads only, and runs as any role; what the role may not see is told.
package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Severity tells how bad a finding is.
type Severity string

const (
	// Problem means that money may move twice, or that requests fail.
	Problem Severity = "problem"
	// Warning means that it works now and will not go well.
	Warning Severity = "warning"
	// Note is good to know; nothing has to be done.
	Note Severity = "note"
)

// Finding is one thing found.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	// What is so here, with the names and figures of this database.
	What string `json:"what"`
	// Why it matters.
	Why string `json:"why"`
	// Do is what to do about it.
	Do string `json:"do"`
}

// Report is what Examine found.
type Report struct {
	Server   string    `json:"server"`
	Database string    `json:"database"`
	Role     string    `json:"role"`
	Checks   int       `json:"checks"`
	Findings []Finding `json:"findings"`
}

// Healthy tells whether nothing has to be done: notes do not count.
func (r Report) Healthy() bool {
	for _, finding := range r.Findings {
		if finding.Severity != Note {
			return false
		}
	}
	return true
}

// patient is what the checks look at.
type patient struct {
	conn *pgx.Conn
	now  func() time.Time
	// guard and payments tell which schemas are installed, callable whether the
	// role may use them.
	guard, payments, callable bool
}

// check looks for a few related findings.
type check struct {
	name string
	look func(context.Context, *patient) ([]Finding, error)
	// needs says without which schema there is nothing to look at.
	needs func(*patient) bool
}

func always(*patient) bool          { return true }
func hasGuard(p *patient) bool      { return p.guard }
func callsGuard(p *patient) bool    { return p.guard && p.callable }
func callsPayments(p *patient) bool { return p.payments && p.callable }

// checks are all that the doctor looks at, in the order of the report.
func checks() []check {
	return []check{
		{"server version", serverVersion, always},
		{"crash safety", crashSafety, always},
		{"synchronous commit", synchronousCommit, always},
		{"standbys", standbys, always},
		{"read-only", readOnly, always},
		{"WAL level", walLevel, always},
		{"pooler", pooler, always},
		{"transport", transport, always},
		{"clock", clock, always},
		{"schema", schema, always},
		{"guard version", guardVersion, callsGuard},
		{"key table", keyTable, hasGuard},
		{"grants", grants, hasGuard},
		{"keys", keys, callsGuard},
		{"purge job", purgeJob, callsGuard},
		{"backlog", backlog, callsPayments},
	}
}

// Examine runs every check over one connection. It returns an error only when
// the database cannot be asked at all; a check that fails is a finding.
func Examine(ctx context.Context, conn *pgx.Conn) (Report, error) {
	return examine(ctx, &patient{conn: conn, now: time.Now})
}

func examine(ctx context.Context, p *patient) (Report, error) {
	report := Report{Findings: []Finding{}}
	err := p.conn.QueryRow(ctx, `
		SELECT pg_catalog.current_setting('server_version'), pg_catalog.current_database(), current_user,
		       pg_catalog.count(*) FILTER (WHERE n.nspname = 'guard') > 0,
		       pg_catalog.count(*) FILTER (WHERE n.nspname = 'payments') > 0,
		       coalesce(pg_catalog.bool_and(pg_catalog.has_schema_privilege(n.oid, 'USAGE')), false)
		  FROM pg_catalog.pg_namespace AS n
		 WHERE n.nspname IN ('guard', 'payments')
		   AND EXISTS (SELECT FROM pg_catalog.pg_proc AS p WHERE p.pronamespace = n.oid)`).
		Scan(&report.Server, &report.Database, &report.Role, &p.guard, &p.payments, &p.callable)
	if err != nil {
		return report, fmt.Errorf("ask the database who it is: %w", err)
	}
	for _, c := range checks() {
		if !c.needs(p) {
			continue
		}
		report.Checks++
		found, err := c.look(ctx, p)
		if err != nil {
			if p.conn.IsClosed() {
				return report, fmt.Errorf("check %s: %w", c.name, err)
			}
			found = append(found, CheckFailed.found("%s: %v", c.name, err))
		}
		report.Findings = append(report.Findings, found...)
	}
	return report, nil
}
