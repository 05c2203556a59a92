package postgres

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Again calls until the database answers, for as long as within, and gives each
// call no longer than each. An error that the call itself caused ends it.
// Repeating a call must change nothing when the call took effect before.
func Again(ctx context.Context, within, each time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = 20*time.Millisecond, time.Second
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		bounded, cancel := context.WithTimeout(ctx, each)
		defer cancel()
		last = call(bounded)
		if last != nil && !Unanswered(last) {
			return struct{}{}, backoff.Permanent(last)
		}
		return struct{}{}, last
	}, backoff.WithBackOff(pace), backoff.WithMaxElapsedTime(within))
	if err != nil && last != nil {
		return last
	}
	return err //nolint:wrapcheck // last says what failed
}
