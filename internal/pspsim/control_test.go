package pspsim_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pspsim"
)

func TestControlRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	f.alipayCreate(t, "known", 1)
	for _, test := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"/faults", ``, 400, "JSON"},
		{"/faults", `{"provider":"alipay"} {}`, 400, "follows"},
		{"/faults", `{"provider":"alipay","op":"charge","fault":"decline","sometimes":1}`, 400, "sometimes"},
		{"/faults", `{"provider":"paypal","op":"charge","fault":"decline"}`, 400, "paypal"},
		{"/faults", `{"provider":"alipay","op":"close","fault":"decline"}`, 400, "op"},
		{"/faults", `{"provider":"alipay","op":"charge","fault":"explode"}`, 400, "explode"},
		{"/faults", `{"provider":"alipay","op":"charge","fault":"decline","times":-1}`, 400, "times"},
		{"/faults", `{"provider":"alipay","op":"charge","fault":"delay","delay_ms":-1}`, 400, "delay_ms"},
		{"/faults", `{"provider":"alipay","op":"query","fault":"decline"}`, 400, "query"},
		{"/buyer", `{"provider":"alipay","out_trade_no":"known","action":"haggle"}`, 400, "haggle"},
		{"/buyer", `{"provider":"alipay","out_trade_no":"unknown","action":"pay"}`, 404, "no such trade"},
		{"/buyer", `{"provider":"alipay","out_trade_no":"known","action":"pay"}`, 409, "does not wait"},
		{"/notify", `{"provider":"paypal","out_trade_no":"known","event":"paid"}`, 400, "paypal"},
		{"/notify", `{"provider":"alipay","out_trade_no":"unknown","event":"paid"}`, 404, "no such trade"},
		{"/notify", `{"provider":"alipay","out_trade_no":"known","event":"lost"}`, 400, "lost"},
		{"/notify", `{"provider":"alipay","out_trade_no":"known","event":"failed"}`, 400, "alipay sends no notification"},
		{"/notify", `{"provider":"alipay","out_trade_no":"known","event":"refund_partial"}`, 400, "one minor unit"},
		{"/notify", `{"provider":"alipay","out_trade_no":"known","event":"paid"}`, 400, "no address to notify"},
		{"/notify", `{"provider":"alipay","out_trade_no":"known","event":"paid","times":1001}`, 400, "times"},
	} {
		status, answer := f.control(test.path, test.body)
		require.Equal(t, test.status, status, test.body)
		require.Contains(t, answer, `"error"`)
		require.Contains(t, answer, test.says)
	}
}

func TestLedgerIsAnArrayAndCanBeFiltered(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	_, _, empty := f.send(http.MethodGet, "/ledger", nil, "")
	require.JSONEq(t, "[]", empty)

	f.alipayCreate(t, "order-1", 1050)
	f.alipayCreate(t, "order-2", 1)
	_, _, one := f.send(http.MethodGet, "/ledger?provider=alipay&out_trade_no=order-1", nil, "")
	require.JSONEq(t, `[{"provider":"alipay","out_trade_no":"order-1","kind":"charge","amount":1050,"currency":"CNY","at":`+
		quoted(t, f.sim.Ledger()[0].At)+`}]`, one)
	_, _, none := f.send(http.MethodGet, "/ledger?provider=stripe", nil, "")
	require.JSONEq(t, "[]", none)
}

func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	status, header, health := f.send(http.MethodGet, "/healthz", nil, "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	require.JSONEq(t, `{"status":"ok"}`, health)

	f.alipayCreate(t, "order-1", 100)
	f.send(http.MethodPost, "/alipay/gateway.do?method=alipay.trade.create", nil, "")
	_, _, counts := f.send(http.MethodGet, "/requests", nil, "")
	require.JSONEq(t, `{"alipay/charge":2}`, counts, "a request that was refused counts too")
}

func TestFaultsFollowEachOther(t *testing.T) {
	t.Parallel()
	f := setup(t, pspsim.Options{})
	status, armed := f.control("/faults", `{"provider":"alipay","op":"charge","fault":"decline"}`)
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"provider":"alipay","op":"charge","fault":"decline","times":1}`, armed)
	f.control("/faults", `{"provider":"alipay","op":"charge","fault":"error_before","times":2}`)

	var subCodes []string
	for range 4 {
		subCodes = append(subCodes, f.alipayCreate(t, "order-1", 100).SubCode)
	}
	require.Equal(t, []string{
		"ACQ.BUYER_BALANCE_NOT_ENOUGH", "aop.ACQ.SYSTEM_ERROR", "aop.ACQ.SYSTEM_ERROR", "",
	}, subCodes)
	require.Equal(t, []string{"charge 100 CNY"}, f.moved("alipay", "order-1"))
}
