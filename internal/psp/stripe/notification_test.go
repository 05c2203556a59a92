package stripe_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v82/webhook"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/stripe"
)

const secret = "whsec_test_secret"

func listener(t *testing.T, secrets string) *stripe.Provider {
	t.Helper()
	config := simulatedConfig(t)
	config.WebhookSecret = secrets
	provider, err := stripe.New(config)
	require.NoError(t, err)
	return provider
}

// signed is Stripe's header as Stripe's own SDK signs a body.
func signed(body, secret string, at time.Time) http.Header {
	return header(webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{
		Payload: []byte(body), Secret: secret, Timestamp: at,
	}).Header)
}

func header(value string) http.Header {
	h := http.Header{}
	h.Set("Stripe-Signature", value)
	return h
}

func event(kind, object string) string {
	return fmt.Sprintf(`{"id":"evt_1","object":"event","type":%q,"livemode":false,"data":{"object":%s}}`, kind, object)
}

func charge(refunded int, fully bool) string {
	return fmt.Sprintf(`{"id":"ch_1","object":"charge","amount":1000,"amount_refunded":%d,"refunded":%t,"currency":"usd",
		"payment_intent":"pi_1","metadata":{"order_id":"order-1","attempt":"1"}}`, refunded, fully)
}

func TestNotifications(t *testing.T) {
	t.Parallel()
	base := psp.Notification{Key: "webhook:stripe:evt_1", OrderID: "order-1", TradeNo: "pi_1"}
	made := func(code string, change func(*psp.Notification)) psp.Notification {
		n := base
		n.Code = code
		change(&n)
		return n
	}
	other := func(code string) psp.Notification {
		return psp.Notification{Event: psp.EventOther, Key: "webhook:stripe:evt_1", Code: code}
	}
	const bare = `"metadata":{}`
	metadata := `"metadata":{"order_id":"order-1","attempt":"1"}`
	for name, test := range map[string]struct {
		kind, object string
		want         psp.Notification
	}{
		"paid": {"payment_intent.succeeded", intentJSON("pi_1", "succeeded"), made("payment_intent.succeeded", func(n *psp.Notification) {
			n.Event, n.Money = psp.EventPaid, usd(1000)
		})},
		"some given back": {"charge.refunded", charge(300, false), made("charge.refunded", func(n *psp.Notification) {
			n.Event, n.Money, n.RefundedTotal = psp.EventRefundPartial, usd(1000), usd(300)
		})},
		"all given back": {"charge.refunded", charge(1000, true), made("charge.refunded", func(n *psp.Notification) {
			n.Event, n.Money, n.RefundedTotal = psp.EventRefundFull, usd(1000), usd(1000)
		})},
		"an intent of somebody else's": {
			"payment_intent.succeeded", strings.Replace(intentJSON("pi_1", "succeeded"), metadata, bare, 1), other("payment_intent.succeeded"),
		},
		"a charge of somebody else's": {"charge.refunded", strings.Replace(charge(300, false), metadata, bare, 1), other("charge.refunded")},
		"waiting":                     {"payment_intent.processing", intentJSON("pi_1", "processing"), other("payment_intent.processing")},
		"refused":                     {"payment_intent.payment_failed", intentJSON("pi_1", "requires_payment_method"), other("payment_intent.payment_failed")},
		"cancelled":                   {"payment_intent.canceled", intentJSON("pi_1", "canceled"), other("payment_intent.canceled")},
		"of no interest":              {"customer.created", `{"id":"cus_1","object":"customer"}`, other("customer.created")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := event(test.kind, test.object)
			n, err := listener(t, secret).ParseNotification(t.Context(), signed(body, secret, time.Now()), []byte(body))
			require.NoError(t, err)
			require.Equal(t, test.want, n)
		})
	}
}

func TestRefundEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, object string
		event        psp.Event
	}{
		"made":      {"refund.created", refundJSON("r1", "succeeded"), psp.EventRefundPartial},
		"later":     {"refund.updated", refundJSON("r1", "succeeded"), psp.EventRefundPartial},
		"failed":    {"refund.failed", refundJSON("r1", "failed"), psp.EventRefundFailed},
		"cancelled": {"refund.updated", refundJSON("r1", "canceled"), psp.EventRefundFailed},
		"under way": {"refund.created", refundJSON("r1", "pending"), psp.EventOther},
		"not ours":  {"refund.created", refundJSON("", "succeeded"), psp.EventOther},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := event(test.kind, test.object)
			n, err := listener(t, secret).ParseNotification(t.Context(), signed(body, secret, time.Now()), []byte(body))
			require.NoError(t, err)
			require.Equal(t, test.event, n.Event)
			if test.event != psp.EventOther {
				require.Equal(t, "order-1", n.OrderID)
				require.Equal(t, "r1", n.RefundID)
			}
		})
	}
}

// Whom a signature is by and over what, and when (docs.stripe.com/webhooks).
func TestSignatures(t *testing.T) {
	t.Parallel()
	now := time.Now()
	body := event("payment_intent.succeeded", intentJSON("pi_1", "succeeded"))
	good := signed(body, secret, now).Get("Stripe-Signature")
	second := signed(body, "whsec_second", now).Get("Stripe-Signature")
	forged := strings.Repeat("0", 64)
	_, v1, _ := strings.Cut(good, "v1=")
	for name, test := range map[string]struct {
		secrets string
		header  http.Header
		says    string // empty: accepted
	}{
		"good":                        {secret, header(good), ""},
		"several, one good":           {secret, header(good + ",v1=" + forged), ""},
		"the good one last":           {secret, header(strings.Replace(good, "v1=", "v1="+forged+",v1=", 1)), ""},
		"another scheme beside":       {secret, header(good + ",v0=" + forged), ""},
		"the old of two secrets":      {secret + ",whsec_second", header(good), ""},
		"the new of two secrets":      {secret + ",whsec_second", header(second), ""},
		"299 s ago":                   {secret, signed(body, secret, now.Add(-295*time.Second)), ""},
		"in 295 s":                    {secret, signed(body, secret, now.Add(295*time.Second)), ""},
		"301 s ago":                   {secret, signed(body, secret, now.Add(-305*time.Second)), "too far off"},
		"in 305 s":                    {secret, signed(body, secret, now.Add(305*time.Second)), "too far off"},
		"no header":                   {secret, http.Header{}, "has 0 Stripe-Signature headers"},
		"two headers":                 {secret, http.Header{"Stripe-Signature": {good, good}}, "has 2 Stripe-Signature headers"},
		"empty header":                {secret, header(""), "has 0 times"},
		"no signature":                {secret, header(strings.Split(good, ",")[0]), "does not verify"},
		"no time":                     {secret, header("v1=" + v1), "has 0 times"},
		"two times":                   {secret, header(good + ",t=1"), "has 2 times"},
		"a time that is none":         {secret, header("t=soon,v1=" + v1), "is no number"},
		"another secret":              {"whsec_another", header(good), "does not verify"},
		"the old scheme only":         {secret, header(strings.Replace(good, "v1=", "v0=", 1)), "does not verify"},
		"forged":                      {secret, header(strings.Replace(good, v1, forged, 1)), "does not verify"},
		"cut short":                   {secret, header(good[:len(good)-2]), "does not verify"},
		"the time changed afterwards": {secret, header(fmt.Sprintf("t=%d,v1=%s", now.Unix()+1, v1)), "does not verify"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := listener(t, test.secrets).ParseNotification(t.Context(), test.header, []byte(body))
			if test.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.says)
			require.NotContains(t, err.Error(), v1)
		})
	}
	_, err := listener(t, secret).ParseNotification(t.Context(), header(good), []byte(body+" "))
	require.ErrorContains(t, err, "does not verify", "every byte is signed")
}

// The values that Stripe publishes for the MAC of its signatures: stripe-node,
// src/crypto/CryptoProvider.ts, and its tests of it. What is signed, the time, a
// dot and the body, is held by TestSignatures against the SDK's own signing.
func TestPublishedMAC(t *testing.T) {
	t.Parallel()
	for message, published := range map[string]string{
		"":                                "f7f9bd47fb987337b5796fdc1fdb9ba221d0d5396814bfcaf9521f43fd8927fd",
		"\U0001F600":                      "837da296d05c4fe31f61d5d7ead035099d9585a5bcde87de952012a78f0b0c43",
		`{"obj1":"hello","obj2":"world"}`: "bebb1a643997f419b315ddba19e6f5411e1ce7f810ba6d3617ce72823092f363",
	} {
		mac := hmac.New(sha256.New, []byte("test_secret"))
		mac.Write([]byte(message))
		require.Equal(t, published, hex.EncodeToString(mac.Sum(nil)))
	}
}

func TestForeignEvents(t *testing.T) {
	t.Parallel()
	paid := event("payment_intent.succeeded", intentJSON("pi_1", "succeeded"))
	for says, body := range map[string]string{
		"livemode true":               strings.Replace(paid, `"livemode":false`, `"livemode":true`, 1),
		"connected account":           strings.Replace(paid, `"livemode"`, `"account":"acct_1","livemode"`, 1),
		"has no id":                   strings.Replace(paid, "evt_1", "", 1),
		"no data":                     `{"id":"evt_1","object":"event","type":"payment_intent.succeeded"}`,
		"cannot be read":              "[]",
		"not one that can be read":    "no JSON",
		`has status "processing"`:     event("payment_intent.succeeded", intentJSON("pi_1", "processing")),
		"read the payment intent":     event("payment_intent.succeeded", `{"id":1}`),
		"read the charge":             event("charge.refunded", `{"amount":"x","object":"charge","id":"ch_1"}`),
		"no decimals":                 event("payment_intent.succeeded", strings.NewReplacer("usd", "isk", "1000", "1001").Replace(intentJSON("pi_1", "succeeded"))),
		"event evt_1: read the refun": event("refund.updated", `{"amount":"x","object":"refund","id":"re_1"}`),
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			_, err := listener(t, secret).ParseNotification(t.Context(), signed(body, secret, time.Now()), []byte(body))
			if says == "cannot be read" {
				require.Error(t, err)
				return
			}
			require.ErrorContains(t, err, says)
		})
	}
}
