package payments

import (
	"context"
	"fmt"

	"github.com/payonce/payonce/internal/psp"
)

// Effect is what a notification did.
type Effect string

// The effects of payments.apply_notification. Only the first three are to be
// acknowledged; anything else the provider shall send again.
const (
	Applied   Effect = "applied"
	Duplicate Effect = "duplicate"
	// Recorded: not applied, but put before a person.
	Recorded Effect = "recorded"
)

// Acknowledged tells whether the provider may forget the notification.
func (e Effect) Acknowledged() bool { return e == Applied || e == Duplicate || e == Recorded }

// Notify applies a verified notification, once. An error means that nothing
// happened.
func (s *Service) Notify(ctx context.Context, provider string, n psp.Notification) (Effect, error) {
	var effect Effect
	err := s.db.QueryRow(ctx, notificationSQL, provider, n.Key, string(n.Event), n.OrderID, n.TradeNo,
		n.Money.Amount, n.Money.Currency, n.RefundID, n.Refunded.Amount, n.RefundedTotal.Amount, n.Code,
		s.limits.EventTTL).Scan(&effect)
	if err != nil {
		return "", fmt.Errorf("apply notification %s: %w", n.Key, err)
	}
	return effect, nil
}
