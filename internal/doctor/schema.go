package doctor

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/payments"
	"github.com/payonce/payonce/migrations"
)

// schema compares the migrations that ran with the program's. A database with
// the guard alone has none, and is judged by the guard's version.
func schema(ctx context.Context, p *patient) ([]Finding, error) {
	if !p.guard && !p.payments {
		return []Finding{SchemaMissing.found("schemas guard and payments do not exist in this database")}, nil
	}
	if !p.payments {
		return nil, nil
	}
	var readable *bool
	err := p.conn.QueryRow(ctx, `
		SELECT pg_catalog.has_table_privilege(pg_catalog.to_regclass($1), 'SELECT')`, migrations.VersionTable).Scan(&readable)
	if err != nil {
		return nil, fmt.Errorf("look for the schema's version: %w", err)
	}
	want, err := migrations.Newest()
	if err != nil {
		return nil, err
	}
	if readable == nil {
		return []Finding{SchemaOld.found("the database has no table %s, this program needs schema version %d",
			migrations.VersionTable, want)}, nil
	}
	if !*readable {
		return []Finding{SchemaHidden.found("no right to read %s", migrations.VersionTable)}, nil
	}
	var have int32
	if err := p.conn.QueryRow(ctx, `SELECT version FROM `+migrations.VersionTable).Scan(&have); err != nil {
		return nil, fmt.Errorf("read the schema's version: %w", err)
	}
	switch {
	case have < want:
		return []Finding{SchemaOld.found("the database has schema version %d, this program needs %d", have, want)}, nil
	case have > want:
		return []Finding{SchemaNew.found("the database has schema version %d, this program knows %d", have, want)}, nil
	}
	return nil, nil
}

func guardVersion(ctx context.Context, p *patient) ([]Finding, error) {
	var have int
	if err := p.conn.QueryRow(ctx, `SELECT guard.version()`).Scan(&have); err != nil {
		return nil, fmt.Errorf("ask for the guard's version: %w", err)
	}
	switch {
	case have < guard.Version:
		return []Finding{GuardOld.found("guard version %d is installed, this program has %d", have, guard.Version)}, nil
	case have > guard.Version:
		return []Finding{GuardNew.found("guard version %d is installed, this program has %d", have, guard.Version)}, nil
	}
	return nil, nil
}

func keyTable(ctx context.Context, p *patient) ([]Finding, error) {
	var unlogged bool
	err := p.conn.QueryRow(ctx, `
		SELECT c.relpersistence = 'u'
		  FROM pg_catalog.pg_class AS c
		  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		 WHERE n.nspname = 'guard' AND c.relname = 'idempotency_keys'`).Scan(&unlogged)
	if err != nil {
		return nil, fmt.Errorf("look at guard.idempotency_keys: %w", err)
	}
	if !unlogged {
		return nil, nil
	}
	return []Finding{KeysUnlogged.found("guard.idempotency_keys is unlogged")}, nil
}

var ourFunction = regexp.MustCompile(`\b((?:guard|payments)\.\w+)\(`)

// called are the functions that the server calls.
func called(p *patient) []string {
	statements := append(guard.Statements(), "CALL guard.purge()", "SELECT guard.purge_job()", "SELECT guard.version()")
	if p.payments {
		statements = append(statements, payments.Statements()...)
	}
	var names []string
	for _, statement := range statements {
		for _, match := range ourFunction.FindAllStringSubmatch(statement, -1) {
			names = append(names, match[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// grantsSQL tells which of the functions a role may not call, a missing one
// among them, and where it may not even use the schema.
const grantsSQL = `
SELECT n.name
  FROM pg_catalog.unnest($2::pg_catalog.text[]) AS n (name)
 WHERE NOT EXISTS (
       SELECT
         FROM pg_catalog.pg_proc AS p
         JOIN pg_catalog.pg_namespace AS s ON s.oid = p.pronamespace
        WHERE s.nspname || '.' || p.proname = n.name
          AND pg_catalog.has_schema_privilege($1::pg_catalog.name, s.oid, 'USAGE')
          AND pg_catalog.has_function_privilege($1::pg_catalog.name, p.oid, 'EXECUTE'))
 ORDER BY 1`

// wideSQL lists what payonce_app, or everybody, may do beside calling functions.
const wideSQL = `
SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE 'payonce_app' END || ' may ' || a.privilege_type || ' ' || o.name
  FROM (SELECT c.oid::pg_catalog.regclass::pg_catalog.text, c.relacl, false
          FROM pg_catalog.pg_class AS c
          JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
         WHERE n.nspname IN ('guard', 'payments') AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
        UNION ALL
        SELECT p.oid::pg_catalog.regprocedure::pg_catalog.text,
               coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner)), true
          FROM pg_catalog.pg_proc AS p
          JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
         WHERE n.nspname IN ('guard', 'payments')
       ) AS o (name, acl, callable)
 CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) AS a
 WHERE a.grantee = 0
    OR NOT o.callable AND a.grantee = (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = 'payonce_app')
 ORDER BY 1`

func grants(ctx context.Context, p *patient) ([]Finding, error) {
	var exists bool
	err := p.conn.QueryRow(ctx, `SELECT pg_catalog.to_regrole('payonce_app') IS NOT NULL`).Scan(&exists)
	if err != nil {
		return nil, fmt.Errorf("look for role payonce_app: %w", err)
	}
	if !exists {
		return []Finding{GrantsMissing.found("role payonce_app does not exist")}, nil
	}
	var found []Finding
	lacks, err := p.names(ctx, grantsSQL, "payonce_app", called(p))
	if err != nil {
		return nil, err
	}
	if len(lacks) > 0 {
		found = append(found, GrantsMissing.found("payonce_app may not call %s", strings.Join(lacks, ", ")))
	}
	var role string
	if err := p.conn.QueryRow(ctx, `SELECT current_user`).Scan(&role); err != nil {
		return nil, fmt.Errorf("ask for the role: %w", err)
	}
	mine, err := p.names(ctx, grantsSQL, role, called(p))
	if err != nil {
		return nil, err
	}
	if len(mine) > len(lacks) {
		found = append(found, RoleWithoutGrants.found("role %s may not call %s", role, strings.Join(mine, ", ")))
	}
	wide, err := p.names(ctx, wideSQL)
	if err != nil {
		return nil, err
	}
	if len(wide) > 0 {
		found = append(found, GrantsTooWide.found("%s", strings.Join(wide, ", ")))
	}
	return found, nil
}

// names collects the text of a one-column query.
func (p *patient) names(ctx context.Context, sql string, args ...any) ([]string, error) {
	rows, err := p.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read the rights: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the rights: %w", err)
	}
	return found, nil
}
