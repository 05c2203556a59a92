package pspsim_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payonce/payonce/internal/pspsim"
)

func TestKeysAreMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "payonce", "keys")
	var made [4]*pspsim.Keys
	var wait sync.WaitGroup
	for i := range made {
		wait.Go(func() {
			var err error
			made[i], err = pspsim.LoadOrCreateKeys(dir)
			require.NoError(t, err)
		})
	}
	wait.Wait()
	for _, keys := range made {
		require.Equal(t, made[0].AlipayPublicKey, keys.AlipayPublicKey)
		require.Equal(t, made[0].AlipayMerchantPrivateKey, keys.AlipayMerchantPrivateKey)
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file.Name())
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, files[0].Name()), []byte("nonsense"), 0o600))
	_, err = pspsim.LoadOrCreateKeys(dir)
	require.ErrorContains(t, err, "remove its folder")
}

func call(t *testing.T, server *httptest.Server, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	response, err := server.Client().Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, strings.TrimSpace(string(read))
}

func TestControlInterface(t *testing.T) {
	t.Parallel()
	keys, err := pspsim.NewKeys()
	require.NoError(t, err)
	simulator := pspsim.New(pspsim.Options{Keys: keys})
	server := httptest.NewServer(simulator.Handler())
	t.Cleanup(func() {
		simulator.Close()
		server.Close()
	})
	status, body := call(t, server, http.MethodGet, "/ledger", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "[]", body)

	for _, wrong := range []string{
		`{`, `{"provider":"alipay","op":"charge","fault":"explode"}`, `{"provider":"alipay","op":"steal","fault":"delay"}`,
		`{"provider":"cash","op":"charge","fault":"delay"}`, `{"provider":"alipay","op":"query","fault":"decline"}`,
		`{"provider":"alipay","op":"charge","fault":"delay","delay_ms":-1}`, `{"unknown":1}`,
	} {
		status, body := call(t, server, http.MethodPost, "/faults", wrong)
		require.Equal(t, http.StatusBadRequest, status, wrong)
		var told map[string]string
		require.NoError(t, json.Unmarshal([]byte(body), &told))
		require.NotEmpty(t, told["error"])
	}
	status, _ = call(t, server, http.MethodPost, "/faults", `{"provider":"alipay","op":"charge","fault":"delay","delay_ms":1}`)
	require.Equal(t, http.StatusOK, status)
	status, _ = call(t, server, http.MethodPost, "/notify", `{"provider":"alipay","out_trade_no":"none","event":"paid"}`)
	require.Equal(t, http.StatusNotFound, status)
	status, _ = call(t, server, http.MethodPost, "/buyer", `{"provider":"alipay","out_trade_no":"none","action":"pay"}`)
	require.Equal(t, http.StatusNotFound, status)
	status, body = call(t, server, http.MethodGet, "/requests", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "{}", body)
}

// A request whose form or signature is wrong is refused in Alipay's own form.
func TestAlipayRefusesWhatIsNotSigned(t *testing.T) {
	t.Parallel()
	keys, err := pspsim.NewKeys()
	require.NoError(t, err)
	simulator := pspsim.New(pspsim.Options{Keys: keys})
	server := httptest.NewServer(simulator.Handler())
	t.Cleanup(func() {
		simulator.Close()
		server.Close()
	})
	tests := map[string]string{
		"": "isv.invalid-app-id",
		"app_id=" + keys.AlipayAppID + "&sign_type=RSA":                      "isv.invalid-signature-type",
		"app_id=" + keys.AlipayAppID + "&sign_type=RSA2":                     "isv.missing-signature",
		"app_id=" + keys.AlipayAppID + "&sign_type=RSA2&sign=bm90IGEgc2lnbg": "isv.invalid-signature",
	}
	for query, code := range tests {
		_, body := call(t, server, http.MethodGet, "/alipay/gateway.do?method=alipay.trade.create&"+query, "")
		require.Contains(t, body, code, query)
		require.Contains(t, body, "alipay_trade_create_response")
	}
	require.Empty(t, simulator.Ledger())
}
