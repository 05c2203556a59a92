package doctor

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// standbysSQL lists who streams WAL, without subscribers of logical
// replication. A role that may not see them gets rows without a state.
const standbysSQL = `
SELECT coalesce(r.application_name, ''), coalesce(r.state, ''), coalesce(r.sync_state, '')
  FROM pg_catalog.pg_stat_replication AS r
 WHERE NOT EXISTS (
       SELECT FROM pg_catalog.pg_replication_slots AS s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')
   AND coalesce(r.state, '') <> 'backup'
 ORDER BY 1`

type standby struct{ Name, State, Sync string }

// anyOf matches synchronous_standby_names with ANY; FIRST is the other kind.
// https://www.postgresql.org/docs/current/runtime-config-replication.html#GUC-SYNCHRONOUS-STANDBY-NAMES
var anyOf = regexp.MustCompile(`(?i)^\s*ANY\s+(\d+)`)

func standbys(ctx context.Context, p *patient) ([]Finding, error) {
	names, err := synchronousNames(ctx, p)
	if err != nil {
		return nil, err
	}
	rows, err := p.conn.Query(ctx, standbysSQL)
	if err != nil {
		return nil, fmt.Errorf("read pg_stat_replication: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[standby])
	if err != nil {
		return nil, fmt.Errorf("read pg_stat_replication: %w", err)
	}
	return judgeStandbys(names, all), nil
}

func judgeStandbys(names string, all []standby) []Finding {
	var found []Finding
	var quorum []string
	waited := 0
	for _, s := range all {
		switch s.Sync {
		case "":
			return []Finding{StandbysHidden.found("%d connections stream WAL", len(all))}
		case "sync":
			waited++
		case "quorum":
			waited++
			quorum = append(quorum, s.Name)
		default: // async, and potential: it may lack what a sync one has
			found = append(found, StandbyAsynchronous.found("standby %q is %s (%s), synchronous_standby_names is %q",
				s.Name, s.Sync, s.State, names))
		}
	}
	if match := anyOf.FindStringSubmatch(names); match != nil && len(quorum) > 0 {
		if needed, err := strconv.Atoi(match[1]); err == nil && needed < len(quorum) {
			found = append(found, StandbyQuorum.found("each commit is on %d of %s", needed, strings.Join(quorum, ", ")))
		}
	}
	if names != "" && waited == 0 {
		found = append(found, StandbyMissing.found("synchronous_standby_names is %q, and none of them is attached", names))
	}
	return found
}
