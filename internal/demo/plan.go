package demo

import (
	"fmt"
	"math/rand/v2"
)

// trouble is what happens to one customer.
type trouble int

const (
	calm trouble = iota
	doubleClick
	answerLost
	errorBefore
	errorAfter
	repeatedNotification
	lateNotification
	serverKilled
)

func (t trouble) String() string {
	return [...]string{
		"nothing goes wrong", "double click", "no answer after the money moved", "provider's 5xx, no money moved",
		"provider's 5xx after the money moved", "notification sent 4 times", "old notification after the payment",
		"server killed with -9 mid-charge",
	}[t]
}

// purchase is what one customer wants: one packet of tea.
type purchase struct {
	orderID  string
	provider string
	amount   int64
	currency string
	trouble  trouble
}

// how often each trouble strikes.
var cast = map[trouble]int{
	calm: 4, doubleClick: 4, answerLost: 4, errorBefore: 2, errorAfter: 2, repeatedNotification: 2, lateNotification: 2,
	serverKilled: 2,
}

var currencies = map[string]string{"alipay": "CNY", "wechat": "CNY", "stripe": "USD", "2c2p": "SGD"}

// plan lists the purchases, the same for the same seed. Those whose server is
// killed come last: it is killed for all of them at once.
func plan(seed uint64) []purchase {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // has to repeat, guards nothing
	names := []string{"alipay", "wechat", "stripe", "2c2p"}
	var all []purchase
	for t := calm; t <= serverKilled; t++ {
		for range cast[t] {
			provider := names[random.IntN(len(names))]
			if t == lateNotification && provider == "wechat" {
				provider = "alipay" // WeChat Pay tells of payments only
			}
			all = append(all, purchase{
				provider: provider, currency: currencies[provider], amount: 100 * (5 + random.Int64N(95)), trouble: t,
			})
		}
	}
	front := all[:len(all)-cast[serverKilled]]
	random.Shuffle(len(front), func(i, j int) { front[i], front[j] = front[j], front[i] })
	for i := range all {
		// Letters and digits, since 2C2P takes nothing else; WeChat Pay wants 6.
		all[i].orderID = fmt.Sprintf("order%02d", i+1)
	}
	return all
}
