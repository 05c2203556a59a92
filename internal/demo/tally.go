package demo

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/payonce/payonce/internal/pspsim"
	"github.com/payonce/payonce/internal/stage"
)

// Tally is how one side ended, counted from the providers' ledger, the database
// and the mails, never from what the server said of itself.
type Tally struct {
	// Requests are those that customers sent, retries included.
	Requests int `json:"requests"`
	// Customers wanted one packet of tea each.
	Customers int `json:"customers"`
	// Charges are the movements of money in the ledger; DoubleCharges those
	// beyond a customer's first.
	Charges       int `json:"charges_in_the_ledger"`
	DoubleCharges int `json:"double_charges"`
	Orders        int `json:"orders"`
	// StockSold are the packets that left the stock.
	StockSold int `json:"stock_sold"`
	Mails     int `json:"mails"`
	// Lost are charges in the ledger whose order is not paid in the database,
	// and customers who were told that they paid and did not.
	Lost int `json:"lost"`
	// Unequal are customers whose retries got another answer than they had got.
	Unequal int `json:"unequal_answers"`
}

// Broken says what is not as every customer wants it, nothing when all is.
func (t Tally) Broken() []string {
	var broken []string
	check := func(held bool, format string, args ...any) {
		if !held {
			broken = append(broken, fmt.Sprintf(format, args...))
		}
	}
	check(t.DoubleCharges == 0, "%d double charges", t.DoubleCharges)
	check(t.Charges == t.Customers, "%d charges for %d customers", t.Charges, t.Customers)
	check(t.Orders == t.Customers, "%d orders for %d customers", t.Orders, t.Customers)
	check(t.StockSold == t.Customers, "%d packets of tea sold to %d customers", t.StockSold, t.Customers)
	check(t.Mails == t.Customers, "%d mails to %d customers", t.Mails, t.Customers)
	check(t.Lost == 0, "%d payments lost", t.Lost)
	check(t.Unequal == 0, "%d customers got unequal answers", t.Unequal)
	return broken
}

// account is what the judge looks at.
type account struct {
	side      side
	db        *pgxpool.Pool
	ledger    []pspsim.Entry
	mails     []stage.Mail
	customers []*customer
}

// order is a row of a side's orders.
type order struct {
	number    string // the number at the provider
	reference string // what the customer calls it
	paid      bool
}

// count tallies a side up.
func count(ctx context.Context, a account) (Tally, error) {
	rows, err := a.db.Query(ctx, a.side.ordersSQL)
	if err != nil {
		return Tally{}, fmt.Errorf("read the orders: %w", err)
	}
	orders, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o order, err error) {
		return o, row.Scan(&o.number, &o.reference, &o.paid)
	})
	if err != nil {
		return Tally{}, fmt.Errorf("read the orders: %w", err)
	}
	var left int
	if err := a.db.QueryRow(ctx, a.side.stockSQL, sku).Scan(&left); err != nil {
		return Tally{}, fmt.Errorf("read the stock: %w", err)
	}
	t := Tally{Customers: len(a.customers), Orders: len(orders), StockSold: stock - left, Mails: len(a.mails)}
	byNumber := map[string]order{}
	for _, o := range orders {
		byNumber[o.number] = o
	}
	charged := map[string]int{} // by the customer's name of the order
	for _, entry := range a.ledger {
		o, known := byNumber[entry.OutTradeNo]
		t.Charges++
		charged[o.reference]++
		if !known || !o.paid {
			t.Lost++
		}
	}
	for _, c := range a.customers {
		t.Requests += c.requests
		t.DoubleCharges += max(0, charged[c.orderID]-1)
		if c.told == 201 && charged[c.orderID] == 0 {
			t.Lost++
		}
		if c.unequal {
			t.Unequal++
		}
	}
	return t, nil
}
