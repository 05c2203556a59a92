package console_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/console"
	"github.com/payonce/payonce/internal/metrics"
	"github.com/payonce/payonce/internal/pgtest"
	"github.com/payonce/payonce/internal/pspsim"
)

func TestOverviewCounts(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("a", "order-a"))
	require.Equal(t, http.StatusCreated, h.charge("a", "order-a"), "a replay")
	require.Equal(t, http.StatusUnprocessableEntity, h.chargeAmount("a", "order-a", 2000), "a mismatch")
	h.chargeInDoubt("b", "order-b")
	claim := `SELECT outcome FROM guard.claim(p_scope => 'shop', p_key => $1, p_request_path => 'POST /v1/charges',
	                 p_request_hash => pg_catalog.sha256('x'), p_lease => '90 seconds')`
	require.Equal(t, "claimed", h.one(claim, "held-1"))

	page := h.ann().get("/console")
	for id, want := range map[string]string{
		"f-requests": "4", "f-replays": "1", "f-conflicts": "0", "f-mismatches": "1", "f-prevented": "1", "f-in-doubt": "1",
		"f-held": "1", "f-cases": "0",
	} {
		require.Equal(t, want, page.figure(id), id)
	}
	require.Contains(t, page.text(), "held-1 shop in flight POST /v1/charges")
	require.Regexp(t, `data-left="(8\d|90)"`, page.body)
}

// A takeover that asks and finds the money moved is a double charge prevented;
// so is a request while another one is at work.
func TestOverviewCountsWhatItPrevented(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.chargeInDoubt("a", "order-a")
	require.Equal(t, "0", h.ann().get("/console").figure("f-prevented"))
	require.Equal(t, http.StatusCreated, h.charge("a", "order-a"), "asks, and finds it paid")
	require.Equal(t, http.StatusConflict, h.charge("b", "order-a"), "the order is paid, or its charge is pending")
	require.Equal(t, "2", h.ann().get("/console").figure("f-prevented"))

	require.NoError(t, h.simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "charge", Fault: "error_before", Times: 1}))
	require.Equal(t, http.StatusServiceUnavailable, h.charge("c", "order-c"))
	require.Equal(t, http.StatusCreated, h.charge("c", "order-c"), "the money had not moved: nothing was prevented")
	require.Equal(t, "2", h.ann().get("/console").figure("f-prevented"))
	require.Contains(t, h.visitor().get("/metrics").body, "\npayonce_double_charges_prevented_total 2\n")
}

// An operator finds a payment in doubt, asks the provider again, and reads the
// answer in the order's timeline.
func TestAskAgain(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.chargeInDoubt("pay-1", "order-1")
	ann := h.ann()
	page := ann.get("/console/in-doubt")
	require.Contains(t, page.text(), "order-1")
	require.Contains(t, page.text(), "10.50 CNY")

	page = ann.submit(page, "/console/ask", nil)
	require.Equal(t, http.StatusOK, page.status)
	require.Equal(t, "/console/order?id=order-1", page.path)
	require.Contains(t, page.text(), "Notice The provider answered, and its answer is recorded.")
	require.Contains(t, page.text(), "A person asked the provider again")
	require.Contains(t, page.text(), "actor ann")
	require.Equal(t, "completed", h.one(`SELECT state FROM guard.inspect(p_scope => 'shop', p_key => 'pay-1')`))
	require.Equal(t, "ann", h.one(`SELECT detail ->> 'actor' FROM payments.journal WHERE event = 'operator_ask'`))
	require.NotContains(t, ann.get(page.path).text(), "Notice The provider", "told once")

	require.Contains(t, ann.get("/console/in-doubt").text(), "No charge and no refund is in doubt.")
	require.Equal(t, http.StatusCreated, h.charge("pay-1", "order-1"), "the retry gets the stored answer")
	require.Len(t, h.simulator.Ledger(), 1, "asking moved no money")
}

// A refund in doubt is asked about too. What has its end, and what is not there,
// is left alone.
func TestAskAgainAboutARefund(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("pay-1", "order-1"))
	ann := h.ann()
	page := ann.submit(ann.get("/console/order?id=order-1"), "/console/ask", nil)
	require.Contains(t, page.text(), "The provider was asked, and what it said is recorded.", "a pending charge without its notification")
	require.Equal(t, "paid", h.one(`SELECT status FROM payments.orders`))

	require.NoError(t, h.simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "refund", Fault: "drop_after", Times: 1}))
	require.NoError(t, h.simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "query", Fault: "error_before", Times: 1}))
	require.Equal(t, http.StatusGatewayTimeout, h.post("/v1/refunds", "back-1", `{"order_id":"order-1","amount":1050}`))
	inDoubt := ann.get("/console/in-doubt")
	require.Contains(t, inDoubt.text(), "Refund")
	page = ann.submit(inDoubt, "/console/ask", nil)
	require.Contains(t, page.text(), "The provider answered, and its answer is recorded.")
	require.Equal(t, "succeeded", h.one(`SELECT status FROM payments.refunds`))

	page = ann.submit(inDoubt, "/console/ask", nil)
	require.Contains(t, page.text(), "It has its end already. There is nothing to ask.")
	page = ann.submit(inDoubt, "/console/ask", url.Values{"refund": {"re_none"}})
	require.Contains(t, page.text(), "There is no such charge or refund.")
	for name, form := range map[string]url.Values{
		"both": {"charge": {"ch_1"}}, "neither": {"refund": {""}}, "no order": {"order": {""}}, "no text": {"refund": {"\x00"}},
	} {
		require.Equal(t, http.StatusBadRequest, ann.submit(inDoubt, "/console/ask", form).status, name)
	}
	require.Equal(t, "2", h.one(`SELECT count(*)::text FROM payments.journal WHERE event = 'operator_ask'`))
}

// The provider does not tell either: it stays in doubt, and a person ends it.
func TestAskAgainInVainAndResolve(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.chargeInDoubt("pay-1", "order-1")
	require.NoError(t, h.simulator.Arm(pspsim.Fault{Provider: "alipay", Op: "query", Fault: "error_before", Times: 1}))
	ann := h.ann()
	page := ann.submit(ann.get("/console/in-doubt"), "/console/ask", nil)
	require.Contains(t, page.text(), "The provider did not tell. It stays in doubt and is asked again later.")

	page = ann.get("/console/key?scope=shop&key=pay-1")
	require.Contains(t, page.text(), "End it by hand")
	refused := ann.submit(page, "/console/key", url.Values{"reason": {" "}, "what": {"whatever"}})
	require.Equal(t, http.StatusUnprocessableEntity, refused.status)
	for _, problem := range []string{
		"Choose what the provider says.", "Give a reason of 1 to 1000 characters.", "Confirm that you have seen it at the provider.",
	} {
		require.Contains(t, refused.text(), problem)
	}
	require.Equal(t, "in_doubt", h.one(`SELECT state FROM guard.inspect(p_scope => 'shop', p_key => 'pay-1')`), "as before")

	page = ann.submit(refused, "/console/key", url.Values{
		"what": {"moved"}, "trade_no": {"T1"}, "reason": {"paid in its console, ticket 4711"}, "confirm": {"yes"},
	})
	require.Contains(t, page.text(), "Recorded as succeeded.")
	require.Contains(t, page.text(), "reason paid in its console, ticket 4711")
	require.Equal(t, "paid", h.one(`SELECT status FROM payments.orders`))
	require.Equal(t, "ann", h.one(`SELECT actor FROM guard.operator_log`))
	require.NotContains(t, page.text(), "End it by hand")
	require.Contains(t, ann.get("/console/search?q=T1").text(), "order-1")

	again := ann.submit(refused, "/console/key", url.Values{"what": {"refused"}, "reason": {"again"}, "confirm": {"yes"}})
	require.Contains(t, again.text(), "The key has its response already. Nothing was changed.")
	require.Contains(t, ann.submit(ann.get("/console/order?id=order-1"), "/console/logout", nil).title(), "Log in")
}

func TestReleaseByHand(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.chargeInDoubt("pay-1", "order-1")
	require.Equal(t, "claimed", h.one(`
		SELECT outcome FROM guard.claim(p_scope => 'shop', p_key => 'other', p_request_path => 'POST /other',
		       p_request_hash => pg_catalog.sha256('x'), p_lease => '1 microsecond')`))
	ann := h.ann()
	page := ann.get("/console/in-doubt")
	require.Contains(t, page.text(), "other shop in doubt POST /other")

	for _, key := range []string{"pay-1", "other"} {
		page = ann.get("/console/key?scope=shop&key=" + key)
		page = ann.submit(page, "/console/key", url.Values{"what": {"release"}, "reason": {"no such trade"}, "confirm": {"yes"}})
		require.Contains(t, page.text(), "The key is free.")
		require.Contains(t, page.text(), "The key is gone")
		require.Contains(t, page.text(), "Released by a person")
	}
	require.Equal(t, "0", h.one(`SELECT count(*)::text FROM guard.idempotency_keys`))
	require.Equal(t, "unsent", h.one(`SELECT failure_kind FROM payments.charges`))
}

// A verdict on a key of other work changes nothing.
func TestAVerdictNeedsACharge(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, "claimed", h.one(`
		SELECT outcome FROM guard.claim(p_scope => 'shop', p_key => 'other', p_request_path => 'POST /other',
		       p_request_hash => pg_catalog.sha256('x'), p_lease => '1 microsecond')`))
	ann := h.ann()
	page := ann.get("/console/key?scope=shop&key=other")
	require.NotContains(t, page.body, `value="moved"`)
	page = ann.submit(page, "/console/key", url.Values{"what": {"moved"}, "reason": {"why"}, "confirm": {"yes"}})
	require.Equal(t, http.StatusUnprocessableEntity, page.status)
	require.Equal(t, "0", h.one(`SELECT count(*)::text FROM guard.operator_log`))
}

// What is held is not to be ended, also not by a form from before.
func TestAHeldKeyIsLeftAlone(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.chargeInDoubt("pay-1", "order-1")
	ann := h.ann()
	before := ann.get("/console/key?scope=shop&key=pay-1")
	inDoubt := ann.get("/console/in-doubt")
	_, err := h.conn.Exec(t.Context(), `UPDATE guard.idempotency_keys SET lease_until = pg_catalog.clock_timestamp() + interval '1 hour'`)
	require.NoError(t, err)
	page := ann.submit(before, "/console/key", url.Values{"what": {"release"}, "reason": {"why"}, "confirm": {"yes"}})
	require.Contains(t, page.text(), "A holder is at work on this key. Nothing was changed.")
	require.Contains(t, page.text(), "Nothing is to be done by hand before.")
	page = ann.submit(inDoubt, "/console/ask", nil)
	require.Contains(t, page.text(), "A holder is at work on it. Nothing was asked.")
	require.Equal(t, "0", h.one(`SELECT count(*)::text FROM payments.journal WHERE event LIKE 'operator%'`))
}

func TestSearch(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("key-of-mine", "order-1"))
	tradeNo := h.one(`SELECT trade_no FROM payments.charges`)
	ann := h.ann()
	for _, number := range []string{"order-1", "key-of", "key-of-mine", tradeNo, h.one(`SELECT charge_id FROM payments.charges`)} {
		page := ann.get("/console/search?" + url.Values{"q": {number}}.Encode())
		require.Contains(t, page.text(), number)
		require.Regexp(t, `href="/console/(order\?id=order-1|key\?key=key-of-mine)`, page.body, number)
	}
	require.Contains(t, ann.get("/console/search?q=%3Cscript%3E").body, "Nothing carries the number &lt;script&gt;.")
	require.Contains(t, ann.get("/console/search?q=none").text(), "Nothing carries the number none.")
	require.Equal(t, http.StatusUnprocessableEntity, ann.get("/console/search?q=a%00b").status)
	require.Contains(t, ann.get("/console/search").text(), "The whole number")
	require.Equal(t, http.StatusNotFound, ann.get("/console/order?id=none").status)
	require.Equal(t, http.StatusNotFound, ann.get("/console/order?id=%ff").status)
	require.Equal(t, http.StatusNotFound, ann.get("/console/key?scope=shop&key=none").status)
	require.Equal(t, http.StatusNotFound, ann.get("/console/nothing").status)
	require.Equal(t, http.StatusMethodNotAllowed, ann.get("/console/ask").status)
}

func TestUpkeep(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("a", "order-a"))
	page := h.ann().get("/console/upkeep")
	require.Contains(t, page.text(), "Keys 1 Completed 1 Expired, waiting for purge 0")
	require.Contains(t, page.text(), "payonce serve, by itself")
	require.Contains(t, page.text(), "checks found this:", "the tests' server is not durable")
	require.Contains(t, page.text(), "fsync")
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	h := setup(t)
	ann := h.ann()
	page := ann.get("/console")
	require.Contains(t, page.body, `<html lang="en">`)
	page = ann.get("/console/search?lang=zh&q=x")
	require.Equal(t, "/console/search?q=x", page.path)
	require.Contains(t, page.body, `<html lang="zh-CN">`)
	require.Contains(t, page.text(), "没有找到编号 x。")
	require.Contains(t, ann.get("/console").title(), "概览", "the choice stays")

	for header, want := range map[string]string{
		"zh-TW,zh;q=0.9,en;q=0.8": "zh-CN", "zh-CN": "zh-CN", "de-DE,de": "en", "en;q=0.5,zh;q=0.9": "zh-CN", "": "en", ";;q=": "en",
	} {
		guest := h.visitor()
		guest.header.Set("Accept-Language", header)
		page := guest.get("/console")
		require.Contains(t, page.body, `<html lang="`+want+`">`, header)
		require.Equal(t, want, page.header.Get("Content-Language"))
	}
}

// A role that does not own the schemas gets a page that says what to do.
func TestWithoutTheOwnersRights(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	h := setupWith(t, console.Access{Password: password}, &pgtest.DB{URL: db.URL, AppURL: db.AppURL})
	require.Equal(t, http.StatusCreated, h.charge("a", "order-a"))
	poor := (&pgtest.DB{URL: db.AppURL}).Pool(t)
	pages, err := console.New(t.Context(), console.Options{
		Access: console.Access{UserHeader: "X-Forwarded-User", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Pool:   poor, Log: discard(), Metrics: metrics.New(poor, discard()),
	})
	require.NoError(t, err)
	h.server.Config.Handler.(*http.ServeMux).Handle("/poor/", http.StripPrefix("/poor", pages))
	v := h.visitor()
	v.header.Set("X-Forwarded-User", "ann")
	page := v.get("/poor/console/order?id=order-a")
	require.Equal(t, http.StatusInternalServerError, page.status)
	require.Contains(t, page.text(), "PAYONCE_CONSOLE_DATABASE_URL")
}

// A page shows no secret: no api key, no stored body.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	h := setup(t)
	require.Equal(t, http.StatusCreated, h.charge("a", "order-a"))
	body := h.one(`SELECT pg_catalog.convert_from(response_body, 'UTF8') FROM guard.idempotency_keys`)
	ann := h.ann()
	for _, path := range []string{
		"", "/in-doubt", "/upkeep", "/search?q=order-a", "/search?q=" + apiKey, "/order?id=order-a", "/key?scope=shop&key=a",
	} {
		page := ann.get("/console" + path)
		require.NotContains(t, page.body, body)
		require.NotContains(t, page.body, password)
		if path != "/search?q="+apiKey {
			require.NotContains(t, page.body, apiKey)
		}
	}
	require.NotContains(t, h.log.String(), password)
	require.NotContains(t, h.log.String(), "key=a")
}
