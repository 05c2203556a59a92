package guard

// The SQLSTATEs that payonce's functions raise, as sql/guard/sqlstates.sql
// lists them.
const (
	InvalidScope        = "IK001"
	InvalidKey          = "IK002"
	InvalidRequestPath  = "IK003"
	InvalidRequestHash  = "IK004"
	InvalidLease        = "IK005"
	InvalidTTL          = "IK006"
	InvalidFence        = "IK007"
	InvalidStatus       = "IK008"
	InvalidHeaders      = "IK009"
	Contention          = "IK010"
	InvalidPurge        = "IK011"
	PgCronMissing       = "IK012"
	CitusMissing        = "IK013"
	InvalidOperation    = "IK014"
	InvalidCharge       = "IK101"
	JournalIsAppendOnly = "IK102"
)

// SQLStates maps each code to its name in the registry.
func SQLStates() map[string]string {
	return map[string]string{
		InvalidScope:        "invalid_scope",
		InvalidKey:          "invalid_key",
		InvalidRequestPath:  "invalid_request_path",
		InvalidRequestHash:  "invalid_request_hash",
		InvalidLease:        "invalid_lease",
		InvalidTTL:          "invalid_ttl",
		InvalidFence:        "invalid_fence",
		InvalidStatus:       "invalid_status",
		InvalidHeaders:      "invalid_headers",
		Contention:          "contention",
		InvalidPurge:        "invalid_purge",
		PgCronMissing:       "pg_cron_missing",
		CitusMissing:        "citus_missing",
		InvalidOperation:    "invalid_operation",
		InvalidCharge:       "invalid_charge",
		JournalIsAppendOnly: "journal_is_append_only",
	}
}
