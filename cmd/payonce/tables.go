package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/payonce/payonce/internal/money"
	"github.com/payonce/payonce/internal/operator"
)

// stateColours are those of keys, charges, refunds and orders.
var stateColours = map[string]colour{
	"in_doubt": red, "failed": red,
	"held": yellow, "processing": yellow, "pending": yellow,
	"completed": green, "succeeded": green, "paid": green,
}

func (p painter) state(text string) string {
	c, ok := stateColours[text]
	if !ok {
		c = plain
	}
	return p.paint(c, text)
}

// shown makes text from outside safe for a terminal.
func shown(text string) string {
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

// table prints rows under a head; the cells of a column end at the same place,
// and those under STATE have its colour.
func table(out io.Writer, p painter, head string, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	names := strings.Split(head, "\t")
	line := func(paint func(column int, cell string) string, cells []string) {
		painted := make([]string, len(cells))
		for i, cell := range cells {
			painted[i] = paint(i, cell)
		}
		_, _ = fmt.Fprintln(w, strings.Join(painted, "\t"))
	}
	line(func(_ int, cell string) string { return p.paint(plain, cell) }, names)
	for _, row := range rows {
		line(func(column int, cell string) string {
			if names[column] == "STATE" {
				return p.state(shown(cell))
			}
			return p.paint(plain, shown(cell))
		}, row)
	}
	return w.Flush() //nolint:wrapcheck // printing
}

func printKeys(out io.Writer, keys []operator.Key, limit int, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		for _, key := range keys {
			if err := encoder.Encode(key); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		return nil
	}
	if len(keys) == 0 {
		_, err := fmt.Fprintln(out, "no such keys")
		return err //nolint:wrapcheck // printing
	}
	p := painterFor(out)
	rows := make([][]string, 0, len(keys))
	for _, key := range keys {
		rows = append(rows, []string{
			key.Scope, key.Key, key.State, age(key.Age), statusOf(key), key.RequestPath, at(key.ExpiresAt),
		})
	}
	if err := table(out, p, "SCOPE\tKEY\tSTATE\tAGE\tRESPONSE\tREQUEST\tEXPIRES", rows); err != nil {
		return err
	}
	if len(keys) == limit {
		_, err := fmt.Fprintf(out, "\nthe newest %d; there may be more: narrow it down or raise --limit\n", limit)
		return err //nolint:wrapcheck // printing
	}
	return nil
}

func statusOf(key operator.Key) string {
	if key.ResponseStatus == nil {
		return "-"
	}
	return strconv.Itoa(*key.ResponseStatus)
}

func printKeyStory(out io.Writer, story operator.KeyStory) error {
	p := painterFor(out)
	text := "the key is gone: released or purged\n"
	if key := story.Key; key != nil {
		text = fmt.Sprintf("key %s of scope %s is %s\n%s, fence %d, claimed %s ago, lease until %s, expires %s\n",
			shown(key.Key), shown(key.Scope), p.state(key.State), shown(key.RequestPath), key.Fence, age(key.Age),
			at(key.LeaseUntil), at(key.ExpiresAt))
	}
	if len(story.Orders) > 0 {
		text += "order " + shown(strings.Join(story.Orders, ", ")) + "\n"
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err //nolint:wrapcheck // printing
	}
	return printStory(out, p, story.Story)
}

func printOrder(out io.Writer, order operator.Order) error {
	p := painterFor(out)
	_, err := fmt.Fprintf(out, "order %s of merchant %s: %s, %s\n", shown(order.ID), shown(order.Merchant),
		amount(order.Amount, order.Currency), p.state(order.Status))
	if err != nil {
		return err //nolint:wrapcheck // printing
	}
	for _, item := range order.Items {
		if _, err := fmt.Fprintf(out, "  %d x %s (stock %s)\n", item.Quantity, shown(item.SKU), item.Stock); err != nil {
			return err //nolint:wrapcheck // printing
		}
	}
	for _, c := range order.Cases {
		if c.ResolvedAt == nil {
			if _, err := fmt.Fprintf(out, "  %s %s since %s: %s\n", p.paint(red, "open case"), c.Kind, at(c.OpenedAt),
				facts(c.Detail)); err != nil {
				return err //nolint:wrapcheck // printing
			}
		}
	}
	if err := printMovements(out, p, append(order.Charges, order.Refunds...)); err != nil {
		return err
	}
	return printStory(out, p, order.Story)
}

func printMovements(out io.Writer, p painter, movements []operator.Movement) error {
	if len(movements) == 0 {
		return nil
	}
	var rows [][]string
	for _, m := range movements {
		kind := "charge"
		if m.RefundID != "" {
			kind = "refund"
		}
		due := "-"
		if m.DueAt != nil {
			due = at(*m.DueAt)
		}
		rows = append(rows, []string{
			kind, m.ID(), m.Status, amount(m.Amount, m.Currency), orDash(m.Provider), pointed(m.TradeNo),
			pointed(m.FailureCode), due, m.IdempotencyKey,
		})
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err //nolint:wrapcheck // printing
	}
	return table(out, p, "KIND\tID\tSTATE\tAMOUNT\tPROVIDER\tTRADE NO\tCODE\tNEXT INQUIRY\tKEY", rows)
}

func printStory(out io.Writer, p painter, story []operator.Event) error {
	if len(story) == 0 {
		return nil
	}
	var rows [][]string
	for _, event := range story {
		rows = append(rows, []string{
			event.At.UTC().Format("2006-01-02 15:04:05.000"), event.Source, event.Event, orDash(event.Subject), facts(event.Detail),
		})
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err //nolint:wrapcheck // printing
	}
	return table(out, p, "TIME (UTC)\tFROM\tWHAT\tOF\tFACTS", rows)
}

// facts writes an event's details by name.
func facts(detail map[string]any) string {
	var parts []string
	for _, fact := range operator.Facts(detail) {
		parts = append(parts, shown(fact.Name+"="+fact.Value))
	}
	return strings.Join(parts, " ")
}

func amount(minor int64, currency string) string {
	return money.Money{Amount: minor, Currency: currency}.String()
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func pointed(text *string) string {
	if text == nil {
		return "-"
	}
	return orDash(*text)
}
