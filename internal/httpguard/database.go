package httpguard

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/payonce/payonce/internal/postgres"
)

// FailDatabase answers for a claim that the database did not make: without it
// there is no claim, and without a claim no work (fail closed).
func FailDatabase(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	info := InfoOf(r.Context())
	log.ErrorContext(r.Context(), "database failed", "error", err)
	kind := DatabaseAway
	switch {
	case errors.Is(err, postgres.ErrBusy):
		kind = ServerBusy
	case !postgres.Unanswered(err):
		kind = InternalError
	}
	info.Outcome = kind.Code()
	RetryAfter(w, time.Second)
	WriteProblem(w, kind.Problem())
}
