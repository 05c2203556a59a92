package guardproof

import "github.com/jackc/pgx/v5"

// The places of initialStates.
const (
	absent = iota
	held
	heldPastLife
	inDoubt
	inDoubtPastLife
	completed
	completedPastLife
)

// initialStates are the seven states of a key, all but the first with the claim
// initialFence of request 1.
func initialStates() []state {
	born := state{exists: true, fence: initialFence, request: 1, life: 30}
	with := func(leaseUntil, expiresAt, response int) state {
		s := born
		s.leaseUntil, s.expiresAt, s.response = leaseUntil, expiresAt, response
		return s
	}
	return []state{
		absent:            {},
		held:              with(1, 24, 0),
		heldPastLife:      with(1, 0, 0),
		inDoubt:           with(0, 24, 0),
		inDoubtPastLife:   with(0, 0, 0),
		completed:         with(1, 24, 9),
		completedPastLife: with(0, 0, 9),
	}
}

// basicPrograms are all verbs, each in a transaction of its own. Hour 1 is
// when the initial lease ends, hour 24 when the initial life does, both to the
// microsecond.
func basicPrograms() []program {
	return []program{
		{{{do: claim, request: 1}}},
		{{{do: claim, request: 2}}},
		{{{do: complete, fence: initialFence, response: 11}}},
		{{{do: release, fence: initialFence}}},
		{{{do: extend, fence: initialFence}}},
		{{{do: abandon, fence: initialFence}}},
		{{{do: purge}}},
		{{{do: passTime, hour: 1}}},
		{{{do: passTime, hour: 24}}},
	}
}

// longPrograms are claims that go on: with a completion in a transaction of
// its own, and with a completion or a release in the claim's transaction.
func longPrograms() []program {
	return []program{
		{{{do: claim, request: 1}}, {{do: complete, fence: ownFence, response: 12}}},
		{{{do: claim, request: 1}, {do: complete, fence: ownFence, response: 13}}},
		{{{do: claim, request: 1}, {do: release, fence: ownFence}}},
	}
}

// pairs are all schedules of two sessions. Above READ COMMITTED each
// transaction takes its snapshot in a step of its own; in READ COMMITTED it
// has none, and there each that wrote also rolls back.
func pairs(level pgx.TxIsoLevel, programs []program) []plan {
	var plans []plan
	for _, initial := range initialStates() {
		for i, first := range programs {
			for _, second := range programs[i:] {
				plans = append(plans, plan{
					initial: initial, programs: []program{first, second}, level: level,
					snapshot: level != pgx.ReadCommitted, rollbacks: level == pgx.ReadCommitted,
				})
			}
		}
	}
	return plans
}

// triples are all schedules of three sessions that commit, from the states in
// which most can happen.
func triples() []plan {
	var plans []plan
	programs := basicPrograms()
	states := initialStates()
	for _, initial := range []state{states[absent], states[held], states[inDoubt], states[completedPastLife]} {
		for i, first := range programs {
			for j, second := range programs[i:] {
				for _, third := range programs[i+j:] {
					plans = append(plans, plan{
						initial: initial, programs: []program{first, second, third}, level: pgx.ReadCommitted,
					})
				}
			}
		}
	}
	return plans
}
