package guardproof

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/payonce/payonce/internal/guard"
)

// verb is one thing that can happen to a key.
type verb string

const (
	claim    verb = "claim"
	complete verb = "complete"
	release  verb = "release"
	extend   verb = "extend"
	abandon  verb = "abandon"
	purge    verb = "purge"
	// passTime moves the clock of the whole database to an hour.
	passTime verb = "pass time"
	// endLease and expireKey move one row's timestamps into the past.
	endLease  verb = "end lease"
	expireKey verb = "expire key"
	// look reads the row itself.
	look verb = "look"
)

// Hours of the model's clock. A claim made at hour h is held until h+leaseHours
// and lives until h+lifeHours.
const (
	leaseHours = 2
	lifeHours  = 48
)

// call is a verb with its arguments. Requests and responses are small numbers;
// request 0 and response 0 mean none.
type call struct {
	do       verb
	key      int
	request  int
	fence    int64
	response int
	hour     int
	// since is the hour when the call began. A lease counts from the call and
	// not from the end of its transaction, so that the call may have read the
	// clock then, or last after it had waited.
	since int
}

// answer is what a call said. Fields that do not belong to its verb are zero.
type answer struct {
	outcome   guard.Outcome
	fence     int64
	recovered bool
	response  int
	// yes is what release, extend and abandon return.
	yes bool
	// deleted counts the rows of a purge; -1 is unknown.
	deleted int
	row     row
}

// row is a key as its table row shows it.
type row struct {
	exists    bool
	fence     int64
	request   int
	response  int
	leaseOver bool
	expired   bool
}

// transaction is a group of calls on one key that takes effect at once, or
// answers and takes no effect at all when it is rolled back.
type transaction struct {
	calls      []call
	rolledBack bool
}

// state is one key of the sequential model: the contract of schema guard,
// written down a second time without SQL, locks or sessions.
type state struct {
	now        int
	exists     bool
	fence      int64
	request    int
	response   int
	leaseUntil int
	expiresAt  int
	life       int
}

func (s state) leaseOver() bool { return s.leaseUntil <= s.now }

// expired: past its life, and nobody is at work under it.
func (s state) expired() bool {
	return s.expiresAt <= s.now && (s.response != 0 || s.leaseOver())
}

// holds: the fence is the newest, and its work is not completed.
func (s state) holds(fence int64) bool {
	return s.exists && s.fence == fence && s.response == 0
}

// step tells every state that may follow when c answers a in state s; none
// means that the answer breaks the contract.
func step(s state, c call, a answer) []state {
	switch c.do {
	case claim:
		return stepClaim(s, c, a)
	case complete:
		return stepComplete(s, c, a)
	case release, extend, abandon:
		return stepHolder(s, c, a)
	case purge:
		return stepPurge(s, a)
	case passTime:
		s.now = max(s.now, c.hour)
		return []state{s}
	case endLease:
		s.leaseUntil = min(s.leaseUntil, s.now)
		return []state{s}
	case expireKey:
		s.expiresAt = min(s.expiresAt, s.now)
		return []state{s}
	case look:
		return only(s, a.row == s.row())
	default:
		panic("unknown verb " + string(c.do))
	}
}

func stepClaim(s state, c call, a answer) []state {
	taken := func(explained bool) []state {
		return c.atEachReading(s, explained && a.outcome == guard.Claimed, func(next *state, now int) {
			*next = state{
				now: s.now, exists: true, fence: a.fence, request: c.request,
				leaseUntil: now + leaseHours, expiresAt: now + lifeHours, life: lifeHours,
			}
		})
	}
	switch {
	case !s.exists:
		return taken(a.fence != 0 && !a.recovered)
	case s.expired():
		return taken(a.fence == s.fence+1 && a.recovered == (s.response == 0))
	case s.request != c.request:
		return only(s, a == answer{outcome: guard.Mismatch})
	case s.response != 0:
		return only(s, a == answer{outcome: guard.Replay, response: s.response})
	case !s.leaseOver():
		return only(s, a == answer{outcome: guard.Conflict})
	default:
		return taken(a.fence == s.fence+1 && a.recovered)
	}
}

func stepComplete(s state, c call, a answer) []state {
	switch {
	case !s.exists:
		return only(s, a == answer{outcome: guard.Gone})
	case s.holds(c.fence):
		explained := a == answer{outcome: guard.Completed, fence: c.fence, response: c.response}
		return c.atEachReading(s, explained, func(next *state, now int) {
			next.response, next.expiresAt = c.response, now+s.life
		})
	case s.response != 0:
		return only(s, a == answer{outcome: guard.Replay, response: s.response})
	default:
		return only(s, a == answer{outcome: guard.Conflict})
	}
}

func stepHolder(s state, c call, a answer) []state {
	if !s.holds(c.fence) {
		return only(s, !a.yes)
	}
	switch c.do {
	case release:
		s = state{now: s.now}
	case extend:
		return c.atEachReading(s, a.yes, func(next *state, now int) { next.leaseUntil = now + leaseHours })
	default: // abandon
		s.leaseUntil = min(s.leaseUntil, s.now)
	}
	return only(s, a.yes)
}

// stepPurge: a purge without grace may delete what is past its life, and skips
// what another transaction has locked.
func stepPurge(s state, a answer) []state {
	var next []state
	if a.deleted != 1 {
		next = append(next, s)
	}
	if a.deleted != 0 && s.exists && s.expired() {
		next = append(next, state{now: s.now})
	}
	return next
}

// atEachReading makes the states that follow for each time that the call may
// have read.
func (c call) atEachReading(s state, explained bool, change func(next *state, now int)) []state {
	if !explained {
		return nil
	}
	readings := []int{s.now}
	if c.since < s.now {
		readings = append(readings, c.since)
	}
	var next []state
	for _, now := range readings {
		changed := s
		change(&changed, now)
		next = append(next, changed)
	}
	return next
}

func only(s state, explained bool) []state {
	if explained {
		return []state{s}
	}
	return nil
}

func (s state) row() row {
	if !s.exists {
		return row{}
	}
	return row{
		exists: true, fence: s.fence, request: s.request, response: s.response,
		leaseOver: s.leaseOver(), expired: s.expiresAt <= s.now,
	}
}

// model makes the sequential model for porcupine, one key a history.
func model(initial state) porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []any { return []any{initial} },
		Step: func(from, input, output any) []any {
			var next []any
			for _, s := range stepTransaction(from.(state), input.(transaction), output.([]answer)) {
				next = append(next, s)
			}
			return next
		},
	}
	return nondeterministic.ToModel()
}

func stepTransaction(from state, t transaction, answers []answer) []state {
	states := []state{from}
	for i, c := range t.calls {
		var next []state
		for _, s := range states {
			next = append(next, step(s, c, answers[i])...)
		}
		states = next
	}
	if t.rolledBack && len(states) > 0 {
		return []state{from}
	}
	return states
}

// repeatedFence finds a fence that two claims of one key were given. Claims
// that were rolled back never were.
func repeatedFence(history []porcupine.Operation) error {
	type number struct {
		key   int
		fence int64
	}
	seen := map[number]bool{}
	for _, operation := range history {
		done := operation.Input.(transaction)
		for i, c := range done.calls {
			a := operation.Output.([]answer)[i]
			if done.rolledBack || c.do != claim || a.outcome != guard.Claimed {
				continue
			}
			if seen[number{c.key, a.fence}] {
				return fmt.Errorf("fence %d was given twice", a.fence)
			}
			seen[number{c.key, a.fence}] = true
		}
	}
	return nil
}

func (c call) String() string {
	switch c.do {
	case claim:
		return fmt.Sprintf("claim(request %d)", c.request)
	case complete:
		return fmt.Sprintf("complete(fence %d, response %d)", c.fence, c.response)
	case release, extend, abandon:
		return fmt.Sprintf("%s(fence %d)", c.do, c.fence)
	case passTime:
		return fmt.Sprintf("hour %d", c.hour)
	default:
		return string(c.do)
	}
}

func (a answer) String() string {
	switch {
	case a.outcome != "":
		return fmt.Sprintf("%s fence=%d recovered=%t response=%d", a.outcome, a.fence, a.recovered, a.response)
	case a.row.exists:
		return fmt.Sprintf("%+v", a.row)
	default:
		return fmt.Sprintf("%t, %d deleted", a.yes, a.deleted)
	}
}
