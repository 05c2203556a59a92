// Command pay pays an order once, however often it is tried.
//
//	PAYONCE_API_KEY=... go run main.go ORDER AMOUNT CURRENCY [PROVIDER]
//
// AMOUNT is in minor units: 1000 CNY is 10.00 yuan. PAYONCE_URL says where
// payonce is, PAYONCE_BUDGET for how many seconds to try (300). Run it again
// with the same words to go on where it was. Exit code 0: paid. 1: refused for
// good. 2: not known yet, whatever went wrong. 64: called in a wrong way.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// perTry bounds one try: longer than the server's --provider-deadline.
const perTry = 40 * time.Second

// The exit codes.
const (
	paid    = 0
	refused = 1
	unknown = 2
	usage   = 64
)

// client talks to payonce until its context ends.
type client struct {
	url, apiKey string
	http        http.Client
}

// answer is a response, read to its end.
type answer struct {
	status     int
	retryAfter string
	body       []byte
	// earlier is how many tries went before this one.
	earlier int
}

// retry is what the problem says may be done; empty for an answer that is not
// payonce's.
func (a answer) retry() string {
	var problem struct {
		Retry string `json:"retry"`
	}
	_ = json.Unmarshal(a.body, &problem)
	return problem.Retry
}

func (a answer) again() bool {
	return a.status == http.StatusRequestTimeout || a.status == http.StatusTooManyRequests || a.status >= 500 ||
		a.retry() == "same_key"
}

// keyOf reads the order's key, or makes it, and tells whether it is new. It is
// on disk before anything is sent; of two processes that make one at once, one
// wins and both use it.
func keyOf(order string) (key string, fresh bool, err error) {
	folder, err := os.OpenRoot(".")
	if err != nil {
		return "", false, err
	}
	defer func() { _ = folder.Close() }()
	path := order + ".key"
	if _, err := folder.Stat(path); errors.Is(err, fs.ErrNotExist) {
		key := newUUID()
		draft := path + "." + key
		if err := writeKey(folder, draft, key); err != nil {
			return "", false, err
		}
		err := folder.Link(draft, path)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", false, err
		}
		fresh = err == nil
		if err := folder.Remove(draft); err != nil {
			return "", false, err
		}
	}
	text, err := folder.ReadFile(path)
	return strings.TrimSpace(string(text)), fresh, err
}

// newUUID makes a random UUID (RFC 9562, version 4).
func newUUID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func writeKey(folder *os.Root, path, key string) error {
	file, err := folder.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(key)
	return errors.Join(err, file.Sync(), file.Close())
}

// send makes one try. An error means that no answer came, or not to its end.
func (c *client) send(ctx context.Context, method, path string, header http.Header, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, perTry)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+c.apiKey)
	maps.Copy(request.Header, header)
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"), body: text}, err
}

// asked is a Retry-After (RFC 9110, 10.2.3): seconds or a date. One that is
// neither counts 0.
func asked(retryAfter string) time.Duration {
	if date, err := http.ParseTime(retryAfter); err == nil {
		return max(0, time.Until(date))
	}
	seconds, _ := strconv.ParseUint(retryAfter, 10, 31) // the largest when it is out of range
	return time.Duration(seconds) * time.Second
}

// pause waits what the server asks for and a random time besides. It reports
// false when the budget would be spent.
func pause(ctx context.Context, attempt int, retryAfter string) bool {
	most := min(10*time.Second, 100*time.Millisecond<<min(attempt, 10))
	wait := asked(retryAfter) + mathrand.N(most) //nolint:gosec // spreads load, keeps no secret
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	time.Sleep(wait)
	return true
}

var errTimeIsUp = errors.New("the time is up")

// untilAnswered sends the same bytes until there is an answer that a retry would
// not change.
func (c *client) untilAnswered(ctx context.Context, method, path string, header http.Header, body []byte) (answer, error) {
	for attempt := 0; ; attempt++ {
		got, err := c.send(ctx, method, path, header, body)
		switch {
		case err != nil:
			got.retryAfter = ""
			fmt.Fprintln(os.Stderr, "no answer:", err)
		case !got.again():
			got.earlier = attempt
			return got, nil
		default:
			fmt.Fprintf(os.Stderr, "%d: %s\n", got.status, got.body)
		}
		if !pause(ctx, attempt, got.retryAfter) {
			return answer{}, errTimeIsUp
		}
	}
}

// charge is what the program needs to know of a charge.
type charge struct {
	ChargeID string `json:"charge_id"`
	Status   string `json:"status"`
}

// outcome looks at the charge until the buyer has paid it, or never will.
func (c *client) outcome(ctx context.Context, chargeID string) (int, error) {
	for attempt := 0; ; attempt++ {
		got, err := c.untilAnswered(ctx, http.MethodGet, "/v1/charges/"+chargeID, nil, nil)
		if err != nil {
			return unknown, err
		}
		var now charge
		if got.status != http.StatusOK || json.Unmarshal(got.body, &now) != nil {
			return unknown, fmt.Errorf("reading charge %s: %d: %s", chargeID, got.status, got.body)
		}
		switch now.Status {
		case "succeeded":
			fmt.Println(string(got.body))
			return paid, nil
		case "failed":
			return refused, fmt.Errorf("the charge failed: %s", got.body)
		}
		if !pause(ctx, attempt, "") {
			return unknown, errTimeIsUp
		}
	}
}

func (c *client) pay(ctx context.Context, order string, amount json.Number, currency, provider string) (int, error) {
	key, fresh, err := keyOf(order)
	if err != nil {
		return unknown, err
	}
	// The key belongs to these bytes: put nothing in that changes, such as a time.
	body, err := json.Marshal(map[string]any{
		"order_id": order, "provider": provider, "amount": amount, "currency": currency, "subject": "Order " + order,
	})
	if err != nil {
		return unknown, err
	}
	got, err := c.untilAnswered(ctx, http.MethodPost, "/v1/charges",
		http.Header{"Idempotency-Key": {key}, "Content-Type": {"application/json"}}, body)
	if err != nil {
		return unknown, err
	}
	if got.status == http.StatusCreated {
		// What the buyer needs, if anything, stands in it: a link, a QR code.
		fmt.Fprintf(os.Stderr, "charge: %s\n", got.body)
		var made charge
		if err := json.Unmarshal(got.body, &made); err != nil {
			return unknown, err
		}
		return c.outcome(ctx, made.ChargeID)
	}
	err = fmt.Errorf("%d: %s", got.status, got.body)
	if retry := got.retry(); retry == "new_key" || retry == "never" || (fresh && got.earlier == 0) {
		return refused, err
	}
	// Refused before the key was looked at, which tells nothing of earlier tries.
	return unknown, err
}

func run() (int, error) {
	words := append(os.Args[1:], "alipay")
	apiKey := os.Getenv("PAYONCE_API_KEY")
	budget, err := strconv.Atoi(cmp.Or(os.Getenv("PAYONCE_BUDGET"), "300"))
	form := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64} [1-9][0-9]{0,14} [A-Z]{3} [a-z0-9]+( alipay)?$`)
	if err != nil || apiKey == "" || len(words) < 4 || !form.MatchString(strings.Join(words, " ")) {
		return usage, errors.New("usage: PAYONCE_API_KEY=... pay ORDER AMOUNT CURRENCY [PROVIDER]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(budget)*time.Second)
	defer cancel()
	c := client{url: cmp.Or(os.Getenv("PAYONCE_URL"), "http://127.0.0.1:8080"), apiKey: apiKey}
	// A redirect is an answer: the api key goes to one address only.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c.pay(ctx, words[0], json.Number(words[1]), words[2], words[3])
}

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}
