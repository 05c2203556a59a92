package chaos

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"sync"
)

// story is one idempotency key as its client knows it: the request, and every
// answer that it got.
type story struct {
	key, path, body string
	orderID         string
	amount          int64
	// final are the different answers that end it, 201 and 402, each with how
	// often it was told.
	final map[answer]int
	// last is the last answer, for whoever looks for what went wrong.
	last string
	// refused is the last answer that says never to come back: the code of it.
	refused string
}

// answer is a status and the SHA-256 of a body.
type answer struct {
	status int
	body   [sha256.Size]byte
}

func (s *story) told(status int) bool {
	for a := range s.final {
		if a.status == status {
			return true
		}
	}
	return false
}

// outOfStock is an end for a client that does not wait for the next delivery.
const outOfStock = "out_of_stock"

// diary is what all clients saw.
type diary struct {
	mu       sync.Mutex
	stories  []*story
	statuses map[int]int // 0: no answer came
	requests int
	replays  int
	wrong    []string // answers that no client may ever get
	paid     []purchase
}

// purchase is an order that a client saw paid.
type purchase struct{ provider, orderID string }

func newDiary() *diary { return &diary{statuses: map[int]int{}} }

func (d *diary) begin(path, key, body, orderID string, amount int64) *story {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &story{path: path, key: key, body: body, orderID: orderID, amount: amount, final: map[answer]int{}}
	d.stories = append(d.stories, s)
	return s
}

// response is what a client got; status 0: nothing.
type response struct {
	status   int
	code     string // of a problem
	retry    string // what the problem says of a retry
	body     []byte
	replayed bool
	after    int // seconds of Retry-After
}

// expected are the statuses that a right request may get.
var expected = map[int]bool{
	http.StatusCreated: true, http.StatusPaymentRequired: true, http.StatusConflict: true, http.StatusNotFound: true,
	http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
}

func (d *diary) note(s *story, r response) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests++
	d.statuses[r.status]++
	s.last = statusName(r.status) + " " + r.code
	if r.replayed {
		d.replays++
	}
	switch {
	case r.status == 0:
	case r.status == http.StatusCreated || r.status == http.StatusPaymentRequired:
		s.final[answer{status: r.status, body: sha256.Sum256(r.body)}]++
	case !expected[r.status]:
		d.wrong = append(d.wrong, fmt.Sprintf("POST %s with key %s was answered %d: %s", s.path, s.key, r.status, r.body))
	case r.retry != "same_key" || r.code == outOfStock:
		s.refused = r.code
	}
}

func (d *diary) sawPaid(p purchase) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paid = append(d.paid, p)
}

// somePaid is one of the newest paid orders, by a number that chooses.
func (d *diary) somePaid(number int) (purchase, bool) {
	const newest = 50
	d.mu.Lock()
	defer d.mu.Unlock()
	from := d.paid[max(0, len(d.paid)-newest):]
	if len(from) == 0 {
		return purchase{}, false
	}
	return from[number%len(from)], true
}

func (d *diary) count() (stories, requests, paid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.stories), d.requests, len(d.paid)
}

func (d *diary) all() []*story {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*story{}, d.stories...)
}
