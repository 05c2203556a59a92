// Package load sends calls at a set rate, or as fast as they go, and keeps
// their latencies in HDR histograms.
//
// With a rate the load is open: calls start on a schedule that does not wait
// for slow answers, and a latency counts from the scheduled start. What a
// stalled server does to the calls queued behind it is so part of the result.
package load

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of the histograms, in nanoseconds, and their precision.
const (
	lowest  = int64(time.Microsecond)
	highest = int64(time.Minute)
	digits  = 3
)

// Call is one measured call. client counts from 0 and is served by one
// goroutine at a time; number counts the calls of the whole operation. An error
// means a wrong answer as much as none.
type Call func(ctx context.Context, client int, number int64) error

// Op is an operation to measure.
type Op struct {
	Name string
	Call Call
	// calls numbers the calls of the operation across all its slices.
	calls atomic.Int64
}

// NewOp makes an Op.
func NewOp(name string, call Call) *Op { return &Op{Name: name, Call: call} }

// Plan says how an operation is called.
type Plan struct {
	// Clients is how many calls may be under way at once.
	Clients int
	// Rate is how many calls start in a second; zero: each client calls again
	// as soon as it has its answer.
	Rate float64
	// For is the length of a slice.
	For time.Duration
	// Sleep waits for a call's start; nil: the function Sleep. Tests on a fake
	// clock need another one.
	Sleep func(until time.Time)
}

// Sample is what one slice measured.
type Sample struct {
	Histogram *hdrhistogram.Histogram
	Elapsed   time.Duration
}

// Rate is the number of calls a second that were answered.
func (s Sample) Rate() float64 { return float64(s.Histogram.TotalCount()) / s.Elapsed.Seconds() }

// NewHistogram makes an empty histogram of latencies in nanoseconds, 1 µs to
// 1 minute.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(lowest, highest, digits) }

// Run measures one slice of an operation. It ends at the first failed call with
// that call's error, since a wrong answer makes the whole measurement worthless.
func Run(ctx context.Context, plan Plan, op *Op) (Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := plan.schedule()
	if plan.Sleep == nil {
		plan.Sleep = Sleep
	}
	histograms := make([]*hdrhistogram.Histogram, plan.Clients)
	start := time.Now()
	var running sync.WaitGroup
	for client := range plan.Clients {
		histograms[client] = NewHistogram()
		running.Go(func() {
			if err := plan.serve(ctx, start, next, op, client, histograms[client]); err != nil {
				cancel(fmt.Errorf("%s: %w", op.Name, err))
			}
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return Sample{}, err
	}
	sample := Sample{Histogram: histograms[0], Elapsed: time.Since(start)}
	for _, histogram := range histograms[1:] {
		sample.Histogram.Merge(histogram)
	}
	return sample, nil
}

// serve is one client: it takes the next scheduled call until there is none.
func (p Plan) serve(
	ctx context.Context, start time.Time, next func() (time.Duration, bool), op *Op, client int,
	histogram *hdrhistogram.Histogram,
) error {
	for ctx.Err() == nil {
		offset, ok := next()
		if !ok {
			break
		}
		intended := time.Now()
		if offset >= 0 {
			intended = start.Add(offset)
			p.Sleep(intended)
		}
		if err := op.Call(ctx, client, op.calls.Add(1)); err != nil {
			// When another client failed first, this error is of no interest:
			// Run keeps the first cause only.
			return err
		}
		if err := histogram.RecordValue(min(max(int64(time.Since(intended)), lowest), highest)); err != nil {
			return fmt.Errorf("record a latency: %w", err)
		}
	}
	return nil
}

// schedule hands out the starts of calls, as offsets from the slice's start;
// -1 means now.
func (p Plan) schedule() func() (time.Duration, bool) {
	if p.Rate <= 0 {
		start := time.Now()
		return func() (time.Duration, bool) { return -1, time.Since(start) < p.For }
	}
	arrivals := Arrivals(p.Rate, p.For)
	var taken atomic.Int64
	return func() (time.Duration, bool) {
		i := int(taken.Add(1)) - 1
		if i >= len(arrivals) {
			return 0, false
		}
		return arrivals[i], true
	}
}

// Arrivals are the starts of independent calls at a rate (a Poisson process),
// the same ones for equal arguments: operations that are compared meet the same
// crowd.
func Arrivals(rate float64, length time.Duration) []time.Duration {
	random := rand.New(rand.NewPCG(math.Float64bits(rate), uint64(length))) //nolint:gosec // has to repeat
	var arrivals []time.Duration
	for at := 0.0; ; {
		at += random.ExpFloat64() / rate
		offset := time.Duration(at * float64(time.Second))
		if offset >= length {
			return arrivals
		}
		arrivals = append(arrivals, offset)
	}
}

// Interleave measures operations against each other: repetition after
// repetition, each a slice of every operation, so that whatever else the
// machine does meets all of them. Odd repetitions go backward, which evens out
// a drift. A slice that is not counted comes first. The samples are by
// operation, then by repetition.
func Interleave(ctx context.Context, plan Plan, repetitions int, ops ...*Op) ([][]Sample, error) {
	samples := make([][]Sample, len(ops))
	for repetition := -1; repetition < repetitions; repetition++ {
		for i := range ops {
			if repetition&1 == 1 {
				i = len(ops) - 1 - i
			}
			slice := plan
			if repetition < 0 {
				slice.For /= 2
			}
			sample, err := Run(ctx, slice, ops[i])
			if err != nil {
				return nil, err
			}
			if repetition >= 0 {
				samples[i] = append(samples[i], sample)
			}
		}
	}
	return samples, nil
}
