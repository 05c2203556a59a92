package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/payonce/payonce/internal/pspsim"
)

// Simulator is the providers' simulator, served on a loopback port.
type Simulator struct {
	*pspsim.Simulator

	keys   *pspsim.Keys
	server *http.Server
	url    string
}

// NewSimulator serves a simulator whose notifications go to the server at
// notifyURL.
func NewSimulator(ctx context.Context, keys *pspsim.Keys, notifyURL string) (*Simulator, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the simulator: %w", err)
	}
	simulator := pspsim.New(pspsim.Options{Keys: keys, NotifyURL: notifyURL})
	s := &Simulator{
		Simulator: simulator, keys: keys, url: "http://" + listener.Addr().String(),
		server: &http.Server{Handler: simulator.Handler(), ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { _ = s.server.Serve(listener) }()
	return s, nil
}

// Close ends the simulator and the notifications that are on their way.
func (s *Simulator) Close() {
	s.Simulator.Close()
	_ = s.server.Close()
}

// Environment configures a server for all simulated providers. notifyURL is as
// for NewSimulator.
func (s *Simulator) Environment(notifyURL string) []string {
	k := s.keys
	return []string{
		"PAYONCE_ALIPAY_APP_ID=" + k.AlipayAppID, "PAYONCE_ALIPAY_PRIVATE_KEY=" + k.AlipayMerchantPrivateKey,
		"PAYONCE_ALIPAY_PUBLIC_KEY=" + k.AlipayPublicKey, "PAYONCE_ALIPAY_GATEWAY_URL=" + s.url + "/alipay/gateway.do",
		"PAYONCE_WECHAT_MCH_ID=" + k.WeChatMchID, "PAYONCE_WECHAT_APP_ID=" + k.WeChatAppID,
		"PAYONCE_WECHAT_API_V3_KEY=" + k.WeChatAPIv3Key, "PAYONCE_WECHAT_PRIVATE_KEY=" + k.WeChatMerchantPrivateKey,
		"PAYONCE_WECHAT_CERT_SERIAL=" + k.WeChatMerchantSerial, "PAYONCE_WECHAT_PUBLIC_KEY=" + k.WeChatPublicKey,
		"PAYONCE_WECHAT_PUBLIC_KEY_ID=" + k.WeChatPublicKeyID, "PAYONCE_WECHAT_BASE_URL=" + s.url + "/wechat",
		"PAYONCE_WECHAT_NOTIFY_URL=" + notifyURL + "/webhooks/wechat",
		"PAYONCE_STRIPE_SECRET_KEY=" + k.StripeSecretKey, "PAYONCE_STRIPE_WEBHOOK_SECRET=" + k.StripeWebhookSecret,
		"PAYONCE_STRIPE_BASE_URL=" + s.url + "/stripe",
		"PAYONCE_2C2P_MERCHANT_ID=" + k.TwoCTwoPMerchantID, "PAYONCE_2C2P_SECRET_KEY=" + k.TwoCTwoPSecretKey,
		"PAYONCE_2C2P_PRIVATE_KEY=" + k.TwoCTwoPMerchantPrivateKey, "PAYONCE_2C2P_PUBLIC_KEY=" + k.TwoCTwoPPublicKey,
		"PAYONCE_2C2P_BASE_URL=" + s.url + "/2c2p",
		"PAYONCE_2C2P_MAINTENANCE_URL=" + s.url + "/2c2p/PaymentAction/2.0/action",
	}
}

// Notify has a provider send a notification again: an event of the trade with
// our order number, so many times at once.
func (s *Simulator) Notify(ctx context.Context, provider, orderID, event string, times int) error {
	body, err := json.Marshal(map[string]any{
		"provider": provider, "out_trade_no": orderID, "event": event, "times": times, "parallel": true,
	})
	if err != nil {
		return fmt.Errorf("encode the notification: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/notify", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("have %s notify of %s: %w", provider, event, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("have %s notify of %s: %s: %s", provider, event, response.Status, said)
	}
	return nil
}
