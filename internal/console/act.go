package console

import (
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/payonce/payonce/internal/guard"
	"github.com/payonce/payonce/internal/operator"
	"github.com/payonce/payonce/internal/payments"
)

// ask has a provider asked again about a charge or a refund.
func (c *Console) ask(v *visit) error {
	ctx := v.r.Context()
	chargeID, refundID, orderID := v.form.Get("charge"), v.form.Get("refund"), v.form.Get("order")
	if (chargeID == "") == (refundID == "") || orderID == "" || !valid(chargeID+refundID+orderID) {
		return refusal{http.StatusBadRequest, "error.bad_form"}
	}
	asked, err := c.desk.MakeDue(ctx, chargeID, refundID, v.person)
	if err != nil {
		return err //nolint:wrapcheck // says what failed already
	}
	c.Log.InfoContext(ctx, "asking the provider by hand", "operator", v.person, "order_id", orderID,
		"charge_id", chargeID, "refund_id", refundID, "outcome", asked)
	if asked != operator.AskDue {
		return v.say("asked_"+string(asked), orderURL(orderID))
	}
	var inquiry payments.Inquiry
	var due bool
	if chargeID != "" {
		inquiry, due, err = c.Reconciler.AskCharge(ctx, chargeID)
	} else {
		inquiry, due, err = c.Reconciler.AskRefund(ctx, refundID)
	}
	if err != nil {
		return err //nolint:wrapcheck // says what failed already
	}
	return v.say("asked_"+answered(inquiry, due), orderURL(orderID))
}

// answered is what an inquiry came to.
func answered(inquiry payments.Inquiry, due bool) string {
	switch {
	case !due, inquiry.Outcome == guard.Conflict:
		return "busy"
	case inquiry.Outcome == guard.Completed, inquiry.Outcome == guard.Replay:
		return "completed"
	case inquiry.Outcome == payments.Released, inquiry.Outcome == payments.Rejected:
		return "released"
	case inquiry.Outcome == payments.LeftInDoubt, inquiry.Charge.Status == payments.InDoubt, inquiry.Refund.Status == payments.InDoubt:
		return "in_doubt"
	default:
		return "recorded"
	}
}

// keyBody is the page of a key, with the form to end it by hand.
type keyBody struct {
	operator.KeyStory

	Scope, Name string
	// Open tells that the key may be ended by hand, Held that somebody is at
	// work on it.
	Open, Held bool
	End        endForm
	Problems   []endProblem
}

// endForm is how a person ends a key.
type endForm struct {
	What, TradeNo, Code, Reason string
	Confirmed                   bool
}

// endProblem is what is wrong with a field.
type endProblem struct{ Field, Text string }

func (c *Console) key(v *visit) error {
	query := v.r.URL.Query()
	return v.keyPage(http.StatusOK, query.Get("scope"), query.Get("key"), endForm{}, nil)
}

func (v *visit) keyPage(status int, scope, name string, form endForm, problems []endProblem) error {
	if !valid(scope + name) {
		return refusal{http.StatusNotFound, "error.not_found"}
	}
	story, err := v.desk.Key(v.r.Context(), scope, name)
	if errors.Is(err, operator.ErrNotFound) {
		return v.fail(http.StatusNotFound, "key_missing", name, scope)
	}
	if err != nil {
		return err //nolint:wrapcheck // says what failed already
	}
	body := keyBody{KeyStory: story, Scope: scope, Name: name, End: form, Problems: problems}
	if story.Key != nil {
		body.Open, body.Held = story.Key.State == "in_doubt", story.Key.State == "held"
	}
	return v.render(status, "key", v.text("key_title", name), body)
}

// problems says what is wrong with a form; moves tells that its key started a
// charge or a refund.
func (f endForm) problems(l language, moves bool) []endProblem {
	var found []endProblem
	switch f.What {
	case "release":
	case string(operator.Moved), string(operator.Refused):
		if !moves {
			found = append(found, endProblem{"what", l.text("end_need_what")})
		}
	default:
		found = append(found, endProblem{"what", l.text("end_need_what")})
	}
	if utf8.RuneCountInString(f.TradeNo) > maxSearch || utf8.RuneCountInString(f.Code) > maxSearch {
		found = append(found, endProblem{"trade_no", l.text("end_long")})
	}
	if n := utf8.RuneCountInString(f.Reason); n < 1 || n > 1000 {
		found = append(found, endProblem{"reason", l.text("end_need_reason")})
	}
	if !f.Confirmed {
		found = append(found, endProblem{"confirm", l.text("end_need_confirm")})
	}
	return found
}

// endKey ends a key by hand.
func (c *Console) endKey(v *visit) error {
	ctx := v.r.Context()
	scope, name := v.form.Get("scope"), v.form.Get("key")
	form := endForm{
		What: v.form.Get("what"), TradeNo: strings.TrimSpace(v.form.Get("trade_no")), Code: strings.TrimSpace(v.form.Get("code")),
		Reason: strings.TrimSpace(v.form.Get("reason")), Confirmed: v.form.Get("confirm") == "yes",
	}
	if !valid(scope + name + form.TradeNo + form.Code + form.Reason) {
		return refusal{http.StatusBadRequest, "error.bad_form"}
	}
	story, err := c.desk.Key(ctx, scope, name)
	if err != nil && !errors.Is(err, operator.ErrNotFound) {
		return err //nolint:wrapcheck // says what failed already
	}
	if problems := form.problems(v.language, len(story.Orders) > 0); len(problems) > 0 {
		return v.keyPage(http.StatusUnprocessableEntity, scope, name, form, problems)
	}
	ended, err := c.end(v, guard.Operation{Scope: scope, Key: name, Actor: v.person, Reason: form.Reason}, form)
	if errors.Is(err, operator.ErrNeedsVerdict) || errors.Is(err, operator.ErrNeedsResponse) {
		return refusal{http.StatusConflict, "error.in_between"}
	}
	if err != nil {
		return err
	}
	c.Log.InfoContext(ctx, "ended a key by hand", "operator", v.person, "scope", scope, "order_id", ended.OrderID,
		"action", form.What, "outcome", ended.Outcome)
	if ended.Outcome != guard.Taken {
		return v.say("end_"+string(ended.Outcome), keyURL(scope, name))
	}
	return v.say("end_"+form.What, keyURL(scope, name))
}

func (c *Console) end(v *visit, operation guard.Operation, form endForm) (operator.Ended, error) {
	if form.What == "release" {
		return c.desk.Release(v.r.Context(), operation) //nolint:wrapcheck // says what failed already
	}
	resolution := operator.Resolution{Verdict: operator.Verdict(form.What), TradeNo: form.TradeNo, Code: form.Code}
	if resolution.Code == "" {
		resolution.Code = "operator"
	}
	return c.desk.Resolve(v.r.Context(), operation, resolution) //nolint:wrapcheck // says what failed already
}

// valid tells a text that a column can hold.
func valid(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }
