package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	requestTimeout = 6 * time.Second
	minPause       = 50 * time.Millisecond
	maxPause       = 2 * time.Second
	// finishWithin bounds how long a client goes on when the run is over; a
	// key that is held by a dead server is free again after the lease.
	finishWithin = 4 * lease
	pollPaid     = 250 * time.Millisecond
	// waitPaid is how long a client looks whether its order is paid; then it
	// goes on without.
	waitPaid = 4 * time.Second
)

// sale is what a client can buy with: two providers where they share a currency.
type sale struct {
	currency  string
	providers []string
}

var sales = []sale{{"CNY", []string{"alipay", "wechat"}}, {"USD", []string{"stripe"}}, {"SGD", []string{"2c2p"}}}

// client buys one order after the other, on a bad network and with little
// patience. What it means to do follows from the seed.
type client struct {
	*world
	name   string
	random *rand.Rand
	http   *http.Client
	orders int
	past   []*story
	// background are clicks whose answer the client does not wait for.
	background sync.WaitGroup
}

func newClient(w *world, number int) *client {
	return &client{
		world: w, name: fmt.Sprintf("c%02d", number),
		random: rand.New(rand.NewPCG(w.options.Seed, uint64(number)+1)), //nolint:gosec // has to repeat, guards nothing
		http:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 10 * time.Second}},
	}
}

func (c *client) chance(percent int) bool { return c.random.IntN(100) < percent }

func (c *client) pause(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(c.random.Int64N(int64(most)))):
	}
}

// shop buys until ending is over; what is begun then is finished.
func (c *client) shop(ctx, ending context.Context) {
	defer c.http.CloseIdleConnections()
	defer c.background.Wait()
	for ending.Err() == nil {
		c.buy(ctx)
		if c.chance(20) && len(c.past) > 0 {
			// Somebody presses the back button, minutes later.
			c.ask(ctx, c.past[c.random.IntN(len(c.past))], requestTimeout)
		}
		c.pause(ending, 1500*time.Millisecond)
	}
}

func (c *client) buy(ctx context.Context) {
	c.orders++
	what := sales[c.random.IntN(len(sales))]
	orderID := fmt.Sprintf("%sorder%05d", c.name, c.orders)
	amount := 100 + c.random.Int64N(100_000)
	items := []map[string]any{{"sku": "tea", "quantity": 1 + c.random.IntN(3)}}
	if c.chance(50) {
		items = append(items, map[string]any{"sku": "cup", "quantity": 1})
	}
	if c.chance(5) {
		items = append(items, map[string]any{"sku": "rare", "quantity": 1})
	}
	order := c.begin("/v1/orders", "order-"+orderID, orderID, amount, map[string]any{
		"order_id": orderID, "amount": amount, "currency": what.currency, "items": items,
	})
	if c.until(ctx, order) != http.StatusCreated {
		return
	}
	for try := 1; try <= 3; try++ {
		provider := what.providers[c.random.IntN(len(what.providers))]
		switch c.charge(ctx, orderID, provider, amount, what.currency, try) {
		case http.StatusCreated:
			if c.awaitPaid(ctx, orderID) {
				c.diary.sawPaid(purchase{provider: provider, orderID: orderID})
				c.refund(ctx, orderID, amount)
			}
			return
		case http.StatusPaymentRequired: // the next try has a new key
		default:
			return
		}
	}
}

func (c *client) begin(path, key, orderID string, amount int64, request map[string]any) *story {
	body, err := json.Marshal(request)
	if err != nil {
		panic(err) // plain values only
	}
	s := c.diary.begin(path, key, string(body), orderID, amount)
	c.past = append(c.past, s)
	return s
}

// charge pays an order in one of the ways in which people do.
func (c *client) charge(ctx context.Context, orderID, provider string, amount int64, currency string, try int) int {
	request := map[string]any{
		"order_id": orderID, "provider": provider, "amount": amount, "currency": currency, "subject": "Tea and cups",
	}
	if provider == "stripe" {
		request["payment_method"] = "pm_card_visa"
	}
	key := fmt.Sprintf("pay-%s-%d", orderID, try)
	s := c.begin("/v1/charges", key, orderID, amount, request)
	switch way := c.random.IntN(100); {
	case way < 20: // a double or triple click
		c.clicks(ctx, s, 1+c.random.IntN(2))
	case way < 40: // hangs up early
		c.ask(ctx, s, time.Duration(5+c.random.Int64N(600))*time.Millisecond)
	case way < 47: // a second tab, with a key of its own
		other := c.begin("/v1/charges", key+"-tab", orderID, amount, request)
		c.clicks(ctx, other, 1)
	case way < 50: // gives up: the reconciler has to end it
		c.ask(ctx, s, time.Duration(5+c.random.Int64N(300))*time.Millisecond)
		return 0
	}
	status := c.until(ctx, s)
	if c.chance(40) && (status == http.StatusCreated || status == http.StatusPaymentRequired) {
		for range 1 + c.random.IntN(2) {
			c.ask(ctx, s, requestTimeout)
		}
	}
	return status
}

// clicks sends the same request a few more times, at once, and does not wait.
func (c *client) clicks(ctx context.Context, s *story, times int) {
	for range times {
		c.background.Go(func() { c.ask(ctx, s, requestTimeout) })
	}
}

// refund gives some of an order back, or all of it, or tries to give back too
// much.
func (c *client) refund(ctx context.Context, orderID string, amount int64) {
	if !c.chance(35) {
		return
	}
	parts := []int64{amount}
	switch c.random.IntN(3) {
	case 0:
		parts = []int64{amount / 3}
	case 1: // two at once that together are too much, once in a while
		parts = []int64{amount / 2, amount/2 + c.random.Int64N(2)*amount}
	}
	var refunds sync.WaitGroup
	for i, part := range parts {
		request := map[string]any{"order_id": orderID, "amount": part}
		if c.chance(50) {
			request["refund_id"] = fmt.Sprintf("r%s%d", orderID, i)
		}
		s := c.begin("/v1/refunds", fmt.Sprintf("refund-%s-%d", orderID, i), orderID, part, request)
		if c.chance(30) {
			c.clicks(ctx, s, 1)
		}
		pauses := rand.New(rand.NewPCG(c.random.Uint64(), 0)) //nolint:gosec // as above
		refunds.Go(func() { c.untilWith(ctx, s, pauses) })
	}
	refunds.Wait()
}

// awaitPaid looks until the order is paid, for a while.
func (c *client) awaitPaid(ctx context.Context, orderID string) bool {
	ctx, cancel := context.WithTimeout(ctx, waitPaid)
	defer cancel()
	for {
		var order struct {
			Status string `json:"status"`
		}
		got := c.send(ctx, http.MethodGet, "/v1/orders/"+orderID, "", "", requestTimeout)
		if got.status == http.StatusOK && json.Unmarshal(got.body, &order) == nil && order.Status == "paid" {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pollPaid):
		}
	}
}

// until asks until there is an answer that ends it, and returns its status; 0:
// the client gave up.
func (c *client) until(ctx context.Context, s *story) int { return c.untilWith(ctx, s, c.random) }

func (c *client) untilWith(ctx context.Context, s *story, random *rand.Rand) int {
	ctx, cancel := context.WithTimeout(ctx, finishWithin)
	defer cancel()
	wait := minPause
	for {
		got := c.ask(ctx, s, requestTimeout)
		if got.status != 0 && got.retry != "same_key" || got.code == outOfStock {
			return got.status
		}
		pause := max(wait, min(time.Duration(got.after)*time.Second, maxPause)) // exponential, with jitter
		wait = min(2*wait, maxPause)
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(pause/2 + time.Duration(random.Int64N(int64(pause)))):
		}
	}
}

// ask sends a story's request once and notes the answer.
func (c *client) ask(ctx context.Context, s *story, within time.Duration) response {
	got := c.send(ctx, http.MethodPost, s.path, s.key, s.body, within)
	c.diary.note(s, got)
	return got
}

func (c *client) send(ctx context.Context, method, path, key, body string, within time.Duration) response {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.balancer.url()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		panic(err) // our own address
	}
	// Without it net/http would send the request again by itself, unseen.
	request.GetBody = nil
	request.Header.Set("Authorization", "Bearer "+apiKey)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	answered, err := c.http.Do(request)
	if err != nil {
		return response{}
	}
	defer func() { _ = answered.Body.Close() }()
	got := response{status: answered.StatusCode, replayed: answered.Header.Get("Idempotency-Replayed") == "true"}
	if got.body, err = io.ReadAll(answered.Body); err != nil {
		return response{}
	}
	if got.status >= http.StatusBadRequest {
		var problem struct {
			Code  string `json:"code"`
			Retry string `json:"retry"`
		}
		if json.Unmarshal(got.body, &problem) == nil {
			got.code, got.retry = problem.Code, problem.Retry
		}
	}
	got.after, _ = strconv.Atoi(answered.Header.Get("Retry-After"))
	return got
}
