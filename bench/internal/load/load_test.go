package load_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/bench/internal/load"
)

// sleep waits on the clock of a test.
func sleep(until time.Time) { time.Sleep(time.Until(until)) }

// A server that stalls makes the calls late that should have started meanwhile:
// their latency counts from when they should have.
func TestALatencyCountsFromTheScheduledStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const stall = time.Second
		op := load.NewOp("stalls once", func(_ context.Context, _ int, number int64) error {
			if number == 1 {
				time.Sleep(stall)
			}
			return nil
		})
		sample, err := load.Run(t.Context(), load.Plan{Clients: 1, Rate: 100, For: 2 * time.Second, Sleep: sleep}, op)
		require.NoError(t, err)
		require.Equal(t, int64(len(load.Arrivals(100, 2*time.Second))), sample.Histogram.TotalCount(), "no call is left out")
		// About half of the calls fell into the stall and waited half of it on average.
		waited := time.Duration(sample.Histogram.ValueAtQuantile(75))
		require.InDelta(t, float64(stall)/2, float64(waited), float64(stall)/4)
	})
}

func TestTheScheduleDoesNotWaitForAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var most, underWay atomic.Int64
		op := load.NewOp("slow", func(context.Context, int, int64) error {
			most.Store(max(most.Load(), underWay.Add(1)))
			defer underWay.Add(-1)
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		sample, err := load.Run(t.Context(), load.Plan{Clients: 64, Rate: 200, For: time.Second, Sleep: sleep}, op)
		require.NoError(t, err)
		require.Greater(t, most.Load(), int64(10))
		require.InDelta(t, float64(100*time.Millisecond), float64(sample.Histogram.ValueAtQuantile(99)), 1e6)
		require.InDelta(t, 200/1.1, sample.Rate(), 30)
	})
}

func TestWithoutARateEachClientGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		op := load.NewOp("10 ms", func(context.Context, int, int64) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		})
		sample, err := load.Run(t.Context(), load.Plan{Clients: 3, For: time.Second}, op)
		require.NoError(t, err)
		require.Equal(t, int64(300), sample.Histogram.TotalCount())
	})
}

func TestAWrongAnswerEndsTheMeasurement(t *testing.T) {
	t.Parallel()
	wrong := errors.New("charged twice")
	op := load.NewOp("charge", func(_ context.Context, _ int, number int64) error {
		if number == 50 {
			return wrong
		}
		return nil
	})
	_, err := load.Interleave(t.Context(), load.Plan{Clients: 4, For: time.Minute}, 3, op)
	require.ErrorIs(t, err, wrong)
	require.ErrorContains(t, err, "charge")
}

func TestOperationsTakeTurnsAndGoBackEverySecondTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var order string
		note := func(name string) *load.Op {
			return load.NewOp(name, func(context.Context, int, int64) error {
				order += name
				time.Sleep(2 * time.Second)
				return nil
			})
		}
		samples, err := load.Interleave(t.Context(), load.Plan{Clients: 1, For: time.Second}, 2, note("a"), note("b"))
		require.NoError(t, err)
		require.Equal(t, "ba"+"ab"+"ba", order, "a slice to warm up, then the repetitions")
		require.Len(t, samples, 2)
		require.Len(t, samples[0], 2)
	})
}
