package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/payonce/payonce/internal/doctor"
	"github.com/payonce/payonce/internal/httpapi"
	"github.com/payonce/payonce/internal/operator"
)

// overviewBody is the first page.
type overviewBody struct {
	snapshot

	Figures httpapi.Figures
	Listed  int
}

func (c *Console) overview(v *visit) error {
	now, err := c.snapshot(v.r.Context())
	if err != nil {
		return err
	}
	return v.render(http.StatusOK, "overview", v.text("overview"), overviewBody{now, c.Figures(), listed})
}

// inDoubtBody is what a person has to look at.
type inDoubtBody struct {
	Now    time.Time
	Doubts []operator.Doubt
	// Keys are in doubt and started no charge or refund.
	Keys   []operator.Key
	Cases  []operator.Case
	Listed int
}

func (c *Console) inDoubt(v *visit) error {
	ctx := v.r.Context()
	now, err := c.snapshot(ctx)
	if err != nil {
		return err
	}
	body := inDoubtBody{Now: now.Now, Listed: listed}
	if body.Doubts, err = c.desk.InDoubt(ctx, listed); err != nil {
		return err //nolint:wrapcheck // says what failed already
	}
	if body.Cases, err = c.desk.Cases(ctx, listed); err != nil {
		return err //nolint:wrapcheck // says what failed already
	}
	keys, err := c.desk.Keys(ctx, operator.Filter{State: "in_doubt", Limit: listed})
	if err != nil {
		return err //nolint:wrapcheck // says what failed already
	}
	for _, key := range keys {
		ofADoubt := func(d operator.Doubt) bool { return d.Scope == key.Scope && d.Key == key.Key }
		if !slices.ContainsFunc(body.Doubts, ofADoubt) {
			body.Keys = append(body.Keys, key)
		}
	}
	return v.render(http.StatusOK, "in_doubt", v.text("in_doubt_page"), body)
}

// searchBody is what was found for a number.
type searchBody struct {
	Text, Problem string
	Found         []operator.Found
	Keys          []operator.Key
	Now           time.Time
	Listed        int
}

// maxSearch is the longest number that anything has, in characters.
const maxSearch = 255

func (c *Console) search(v *visit) error {
	body := searchBody{Text: v.r.URL.Query().Get("q"), Listed: listed}
	switch {
	case body.Text == "":
		return v.render(http.StatusOK, "search", v.text("search"), body)
	case !valid(body.Text) || utf8.RuneCountInString(body.Text) > maxSearch:
		body.Problem, body.Text = v.text("search_too_long"), ""
		return v.render(http.StatusUnprocessableEntity, "search", v.text("search"), body)
	}
	now, err := c.snapshot(v.r.Context())
	if err != nil {
		return err
	}
	body.Now = now.Now
	if body.Found, body.Keys, err = c.desk.Find(v.r.Context(), body.Text, listed); err != nil {
		return err //nolint:wrapcheck // says what failed already
	}
	return v.render(http.StatusOK, "search", v.text("search"), body)
}

func (c *Console) order(v *visit) error {
	id := v.r.URL.Query().Get("id")
	if !valid(id) {
		return refusal{http.StatusNotFound, "error.not_found"}
	}
	order, err := c.desk.Order(v.r.Context(), id)
	if errors.Is(err, operator.ErrNotFound) {
		return v.fail(http.StatusNotFound, "order_gone", id)
	}
	if err != nil {
		return err //nolint:wrapcheck // says what failed already
	}
	return v.render(http.StatusOK, "order", v.text("order_title", id), order)
}

// upkeepBody tells how purge and pg_cron fare, and what the doctor finds.
type upkeepBody struct {
	snapshot

	Job    operator.PurgeJob
	Report doctor.Report
}

// DueInquiries are charges and refunds that the reconciler should ask about.
func (b upkeepBody) DueInquiries() int64 { return b.DueCharges + b.DueRefunds }

func (c *Console) upkeep(v *visit) error {
	ctx := v.r.Context()
	now, err := c.snapshot(ctx)
	if err != nil {
		return err
	}
	body := upkeepBody{snapshot: now}
	if body.Job, err = c.desk.PurgeJob(ctx); err != nil {
		return err //nolint:wrapcheck // says what failed already
	}
	if body.Report, err = c.examine(ctx); err != nil {
		return err
	}
	return v.render(http.StatusOK, "upkeep", v.text("upkeep"), body)
}

func (c *Console) examine(ctx context.Context) (doctor.Report, error) {
	conn, err := c.Pool.Acquire(ctx)
	if err != nil {
		return doctor.Report{}, fmt.Errorf("look at the database's health: %w", err)
	}
	defer conn.Release()
	return doctor.Examine(ctx, conn.Conn()) //nolint:wrapcheck // says what failed already
}
