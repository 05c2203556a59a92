package main

// peerNote is what the comparison says about one way to do a thing once.
type peerNote struct {
	Operation string
	Short     string
	// Lacks is what it does not guarantee.
	Lacks string
}

// peerNotes are in the order of the table; the operations are those of
// bench/peers.
func peerNotes() []peerNote {
	return []peerNote{
		{"payonce: claim + complete", "payonce", "—"},
		{
			"textbook SQL: SELECT, INSERT, UPDATE", "textbook SQL",
			"A holder that died keeps its key for good, or, with a time-out added, the next one charges again: there is no " +
				"fence, and nothing says that the first attempt is in doubt. Three round trips instead of two. Each " +
				"application repeats the logic.",
		},
		{
			"Redis, AOF fsync always: SET NX GET, SET", "Redis, fsync always",
			"Not in one transaction with the order: a crash between the two leaves a key without an order or an order without " +
				"a key. No fence: a slow holder overwrites its successor's answer. A second system to run, with its own failover, in " +
				"which acknowledged writes can be lost.",
		},
		{
			"Redis, AOF fsync everysec: SET NX GET, SET", "Redis, fsync everysec",
			"As above, and a crash forgets up to a second of keys: their retries charge again.",
		},
		{
			"DBOS: workflow with one step", "DBOS",
			"A step that was interrupted is run again: at least once, so the provider must be asked or be idempotent itself. " +
				"A retry waits for the running workflow instead of being told. No mismatch: the first body's result answers " +
				"another body too.",
		},
		{
			"River: unique insert, no work, no answer", "River (insert only)",
			"A queue, not a guard: the row says that the job is known. Its work, its result and the wait for it are not in the " +
				"number; a job that was interrupted is worked again. Uniqueness ends when the finished job is deleted, after a day " +
				"by default.",
		},
	}
}
