// Package alipay charges through Alipay's open platform gateway (RSA2).
//
// The order id is the out_trade_no and the refund id the out_request_no, so
// that Alipay itself refuses to move the same money twice.
package alipay

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	sdk "github.com/smartwalle/alipay/v3"

	"github.com/payonce/payonce/internal/psp"
)

// Name is the provider's name in the API.
const Name = "alipay"

const productionGateway = "https://openapi.alipay.com/gateway.do"

// beijing is the time zone of the timestamp in requests.
var beijing = time.FixedZone("CST", 8*60*60)

// Config is one application at Alipay's open platform that signs with a key
// pair (not with certificates).
type Config struct {
	AppID string
	// PrivateKey is the application's RSA key, PEM or bare base64.
	PrivateKey string
	// AlipayPublicKey is Alipay's key, which its answers are verified with.
	AlipayPublicKey string
	// GatewayURL is empty for production, or a sandbox's address.
	GatewayURL string
	// SellerID, where set, must be the seller of each notification.
	SellerID string
	// NotifyURL is where Alipay sends its notifications, unless a request
	// names another address.
	NotifyURL string
	// Client is http.DefaultClient when nil.
	Client *http.Client
}

// LogValue keeps the private key out of logs.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(slog.String("app_id", c.AppID), slog.String("gateway", c.GatewayURL))
}

// String keeps the private key out of whatever prints a Config.
func (c Config) String() string { return fmt.Sprintf("alipay app %s at %q", c.AppID, c.GatewayURL) }

// GoString is String.
func (c Config) GoString() string { return c.String() }

// Provider is Alipay.
type Provider struct {
	client *sdk.Client
	config Config
}

var _ psp.Provider = (*Provider)(nil)

// New makes the provider, or says what its configuration lacks.
func New(config Config) (*Provider, error) {
	for _, setting := range []struct{ name, value string }{
		{"app id", config.AppID}, {"private key", config.PrivateKey}, {"Alipay public key", config.AlipayPublicKey},
	} {
		if setting.value == "" {
			return nil, fmt.Errorf("alipay: the %s is missing", setting.name)
		}
	}
	gateway := config.GatewayURL
	if gateway == "" {
		gateway = productionGateway
	}
	if address, err := url.Parse(gateway); err != nil || address.Host == "" {
		return nil, errors.New("alipay: the gateway is not an address such as " + productionGateway)
	}
	// As a production client, the SDK downloads whatever certificate a
	// notification names before it verifies anything. This application has
	// one key of Alipay's, so nothing is ever downloaded.
	const production = false
	client, err := sdk.New(config.AppID, config.PrivateKey, production, sdk.WithSandboxGateway(gateway),
		sdk.WithHTTPClient(psp.NewClient(config.Client)), sdk.WithTimeLocation(beijing))
	if err != nil {
		return nil, errors.New("alipay: the private key is not an RSA key in PKCS#1 or PKCS#8")
	}
	if err := client.LoadAliPayPublicKey(config.AlipayPublicKey); err != nil {
		return nil, errors.New("alipay: the Alipay public key is not an RSA key in PKIX form")
	}
	return &Provider{client: client, config: config}, nil
}

// Name implements psp.Provider.
func (p *Provider) Name() string { return Name }
