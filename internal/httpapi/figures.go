package httpapi

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/httpguard"
	"github.com/payonce/payonce/internal/payments"
)

// Figures are what one server counted since it started. They are not in the
// database: a replay, a conflict and a mismatch write nothing.
type Figures struct {
	Since time.Time
	// Requests reached the guard: orders, charges and refunds.
	Requests int64
	// Replays, Conflicts and Mismatches are those of them that the guard
	// answered so.
	Replays, Conflicts, Mismatches int64
	// Prevented are requests for a charge that would have charged again had
	// they been sent on to the provider: a replay of a charge that went
	// through, a request while another one was at work on the order, one for an
	// order that was paid, and a takeover that asked and found the money moved.
	Prevented int64
}

// counters are Figures while they grow.
type counters struct {
	since                                               time.Time
	requests, replays, conflicts, mismatches, prevented atomic.Int64
}

// Figures returns what was counted so far.
func (api *API) Figures() Figures {
	c := &api.counters
	return Figures{
		Since: c.since, Requests: c.requests.Load(), Replays: c.replays.Load(), Conflicts: c.conflicts.Load(),
		Mismatches: c.mismatches.Load(), Prevented: c.prevented.Load(),
	}
}

// count counts one answer of the guard.
func (c *counters) count(outcome guard.Outcome) {
	c.requests.Add(1)
	switch outcome {
	case guard.Replay:
		c.replays.Add(1)
	case guard.Conflict, guard.Gone:
		c.conflicts.Add(1)
	case guard.Mismatch:
		c.mismatches.Add(1)
	default:
	}
}

// countedCharge counts one answer to a request for a charge.
func (api *API) countedCharge(result payments.Result) {
	api.counters.count(result.Outcome)
	if prevented(result) {
		api.counters.prevented.Add(1)
		api.payments.Metrics().Prevented()
	}
}

func prevented(result payments.Result) bool {
	wentThrough := result.Response.Status == http.StatusCreated
	switch result.Outcome {
	case guard.Replay:
		return wentThrough
	case guard.Completed:
		return wentThrough && result.Recovered
	case guard.Conflict, guard.Gone, payments.ChargeInProgress, payments.OrderPaid:
		return true
	default:
		return false
	}
}

// counted notes an outcome for the access log and the figures.
func (api *API) counted(info *httpguard.RequestInfo, outcome guard.Outcome) {
	info.Outcome = string(outcome)
	api.counters.count(outcome)
}
