package doctor

import (
	"fmt"
	"maps"
	"slices"
)

// Code names a kind of finding; docs/operations.md has a row for each.
type Code string

// What the doctor can find.
const (
	CheckFailed          Code = "check_failed"
	ServerUnsupported    Code = "server_unsupported"
	FsyncOff             Code = "fsync_off"
	FullPageWritesOff    Code = "full_page_writes_off"
	CommitOff            Code = "synchronous_commit_off"
	CommitNotReplicated  Code = "synchronous_commit_local"
	StandbyAsynchronous  Code = "standby_asynchronous"
	StandbyQuorum        Code = "standby_quorum"
	StandbyMissing       Code = "standby_missing"
	StandbysHidden       Code = "standbys_hidden"
	OnStandby            Code = "on_standby"
	ReadOnly             Code = "read_only"
	WALMinimal           Code = "wal_level_minimal"
	Pooler               Code = "pooler"
	ConnectionPlain      Code = "connection_plain"
	ConnectionUnverified Code = "connection_unverified"
	ClockSkew            Code = "clock_skew"
	SchemaMissing        Code = "schema_missing"
	SchemaOld            Code = "schema_old"
	SchemaNew            Code = "schema_new"
	SchemaHidden         Code = "schema_hidden"
	GuardOld             Code = "guard_old"
	GuardNew             Code = "guard_new"
	KeysUnlogged         Code = "keys_unlogged"
	GrantsMissing        Code = "grants_missing"
	RoleWithoutGrants    Code = "role_without_grants"
	GrantsTooWide        Code = "grants_too_wide"
	PurgeLate            Code = "purge_late"
	PurgeJobInactive     Code = "purge_job_inactive"
	PurgeJobFailing      Code = "purge_job_failing"
	PurgeJobMissing      Code = "purge_job_missing"
	PgCronAbsent         Code = "pg_cron_absent"
	PgCronElsewhere      Code = "pg_cron_elsewhere"
	KeysInDoubt          Code = "keys_in_doubt"
	ChargesOverdue       Code = "charges_overdue"
	RefundsOverdue       Code = "refunds_overdue"
	OutboxBacklog        Code = "outbox_backlog"
	CasesOpen            Code = "cases_open"
)

// explanation is what does not depend on the database looked at.
type explanation struct {
	severity Severity
	why, do  string
}

// serveAsks is who does the work that is found undone.
const serveAsks = "Start `payonce serve`, or run `payonce reconcile` once and read what the providers say; look at one " +
	"with `payonce orders show`."

var catalogue = map[Code]explanation{
	CheckFailed: {Warning, "What could not be looked at may be wrong.",
		"Read the error; most often the role may not see something: run the doctor as the owner of the schemas."},
	ServerUnsupported: {Problem, "The guard's functions use what PostgreSQL has since version 15.",
		"Upgrade the server to PostgreSQL 15 or newer."},
	FsyncOff: {Problem, "After a crash of the operating system or a power cut the database may be damaged beyond repair, " +
		"claims included: a paid order can be charged again.",
		"Set fsync = on and reload. Then make the standbys anew."},
	FullPageWritesOff: {Problem, "A page that was half written when the machine crashed stays damaged, claims included.",
		"Set full_page_writes = on and reload, unless the file system itself never tears a page."},
	CommitOff: {Problem, "A claim is answered before it is on disk: a crash forgets the newest ones while their charges run, " +
		"and a retry charges again.",
		"Set synchronous_commit = on, for this server, database and role."},
	CommitNotReplicated: {Problem, "A synchronous standby is set up, but commits do not wait until it has them on disk: " +
		"a failover forgets the newest claims.",
		"Set synchronous_commit = on (or remote_apply), for this server, database and role."},
	StandbyAsynchronous: {Warning, "Commits do not wait for this standby. A failover to it forgets the claims and charges " +
		"that had not arrived, and a retry charges again.",
		"Name it in synchronous_standby_names, or never promote it: see Failover in docs/operations.md."},
	StandbyQuorum: {Note, "With ANY, each commit is on some of these standbys, not on all of them.",
		"On a failover promote the standby that has received the most WAL (pg_last_wal_receive_lsn), no other."},
	StandbyMissing: {Problem, "Commits wait for a synchronous standby that is not there: every claim hangs.",
		"Bring the standby back, or take it out of synchronous_standby_names and reload: from then on a failover loses " +
			"what the standby had not received."},
	StandbysHidden: {Note, "Whether a standby is synchronous is not shown to this role.",
		"GRANT pg_monitor to the role, or run the doctor as a superuser."},
	OnStandby: {Problem, "A standby takes no writes: every request fails.",
		"Connect to the primary: name all hosts in the URL and add target_session_attrs=read-write."},
	ReadOnly: {Problem, "Transactions are read-only: every request fails.",
		"Set default_transaction_read_only = off for this server, database and role."},
	WALMinimal: {Note, "With wal_level = minimal neither a standby nor a restore to a point in time is possible: a lost disk " +
		"loses the keys since the last backup.",
		"Set wal_level = replica and restart, and archive WAL."},
	Pooler: {Note, "Between here and the server stands a pooler. In transaction mode each transaction may meet another " +
		"session.",
		"Let it follow prepared statements (PgBouncer 1.21 or newer, max_prepared_statements above 0) or set " +
			"default_query_exec_mode=exec in the URL; run `payonce migrate` over a direct connection."},
	ConnectionPlain: {Warning, "Who is on the way between this program and the server reads every payment and can change what the " +
		"guard answers: a charge that was made looks as if it was not.",
		"Put sslmode=verify-full and sslrootcert=FILE into the URL, and leave hostssl lines alone in pg_hba.conf."},
	ConnectionUnverified: {Note, "Who can put a machine between this program and the server reads every payment and can change " +
		"what the guard answers.",
		"Nothing where the network is yours alone; otherwise put sslmode=verify-full and sslrootcert=FILE into the URL."},
	ClockSkew: {Warning, "The guard uses the database's clock alone, so no claim is wrong. But the times in webhook signatures " +
		"are judged by this machine's clock: real notifications may be refused as too old.",
		"Synchronise both clocks, with chrony or the like."},
	SchemaMissing: {Problem, "Nothing is installed in this database: every request fails.",
		"Check the database's name; then run `payonce migrate`."},
	SchemaOld: {Problem, "This program calls functions that the database does not have: `payonce serve` refuses to start.",
		"Run `payonce migrate` with this version of the program."},
	SchemaNew: {Problem, "The database was migrated by a newer program: this one may call functions that have changed.",
		"Use the newer program."},
	SchemaHidden: {Note, "This role may not read which migrations have run.",
		"Run the doctor as the owner of the schemas, or GRANT SELECT ON public.payonce_schema_version to the role."},
	GuardOld: {Problem, "The installed guard lacks what this program's guard does right.",
		"Run `payonce migrate`; for the guard alone: `payonce sql | psql -v ON_ERROR_STOP=1 DATABASE`."},
	GuardNew: {Problem, "The installed guard is newer than this program, which may misread its answers.",
		"Use the newer program."},
	KeysUnlogged: {Problem, "An unlogged table is emptied by a crash and never reaches a standby: every claim is forgotten.",
		"ALTER TABLE guard.idempotency_keys SET LOGGED;"},
	GrantsMissing: {Problem, "The server works as a member of payonce_app; without these rights its requests fail.",
		"Run `payonce migrate` as the owner, which grants them again."},
	RoleWithoutGrants: {Warning, "A server with this role fails, and the doctor could not look at everything.",
		"GRANT payonce_app TO the role, or run the doctor with the server's URL."},
	GrantsTooWide: {Warning, "More than the functions' checks now stand between this role and the keys: whoever takes the " +
		"server over can free a key or read another merchant's responses.",
		"REVOKE what is named here; `payonce migrate` as the owner sets the rights anew."},
	PurgeLate: {Warning, "Expired keys are not deleted. Answers stay right, but the table grows without end.",
		"Let `payonce serve` run, schedule it (SELECT guard.schedule_purge()), or CALL guard.purge() now."},
	PurgeJobInactive: {Warning, "pg_cron has the purge but does not run it, and `payonce serve` purges by itself.",
		"As the owner: SELECT guard.schedule_purge() switches it on, guard.unschedule_purge() removes it."},
	PurgeJobFailing: {Warning, "The newest purge by pg_cron failed, and `payonce serve` leaves the work to it.",
		"Read the message; it runs as the owner of the guard, who has to be able to log in."},
	PurgeJobMissing: {Note, "pg_cron is here but does not purge: `payonce serve` does it by itself.",
		"To let pg_cron do it: SELECT guard.schedule_purge() as the owner."},
	PgCronAbsent: {Note, "`payonce serve` purges by itself. Services that call the SQL functions alone have to schedule it.",
		"Nothing, or what the hint of SELECT guard.schedule_purge() says."},
	PgCronElsewhere: {Note, "pg_cron is in another database of this server; whether it purges here cannot be seen from here.",
		"SELECT guard.schedule_purge() as the owner: its hint holds the statements to run there."},
	KeysInDoubt: {Warning, "Their holders died or got no answer, and nobody has asked since: clients have no end of it.",
		"Look at them with `payonce keys list --state in_doubt`. " + serveAsks},
	ChargesOverdue: {Warning, "Nobody asks the providers about charges that nobody ended: a paid order may look unpaid.", serveAsks},
	RefundsOverdue: {Warning, "Nobody asks the providers about refunds that nobody ended.", serveAsks},
	OutboxBacklog: {Warning, "Customers wait for confirmations and refund notices.",
		"Start `payonce serve --outbox-url`, and see that the receiver answers 2xx."},
	CasesOpen: {Warning, "Money moved in a way that no rule settles.",
		"Read payments.cases; docs/orders.md says what each kind asks for."},
}

// found makes a finding of this kind.
func (c Code) found(what string, args ...any) Finding {
	e := catalogue[c]
	return Finding{Code: c, Severity: e.severity, What: fmt.Sprintf(what, args...), Why: e.why, Do: e.do}
}

// Codes lists every kind of finding.
func Codes() []Code { return slices.Sorted(maps.Keys(catalogue)) }
