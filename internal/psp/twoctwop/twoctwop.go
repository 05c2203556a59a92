// Package twoctwop charges through 2C2P's payment gateway (PGW 4.3).
//
// The order id is the invoiceNo and the refund id the idempotencyID of the
// refund. Payments are asked for and told about in tokens that are signed with
// the merchant's secret key; refunds and voids go through payment maintenance,
// where each side signs with its own RSA key and encrypts to the other's.
//
// The pages in the comments are those below developer.2c2p.com/docs/.
package twoctwop

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/payonce/payonce/internal/psp"
)

// Name is the provider's name in the API.
const Name = "2c2p"

// Production's addresses: api-payment-token and
// payment-maintenance-refund-guide.
const (
	productionBase        = "https://pgw.2c2p.com"
	productionMaintenance = "https://t.2c2p.com/PaymentAction/2.0/action"
)

// Config is one merchant at 2C2P.
type Config struct {
	MerchantID string
	// SecretKey signs payment requests and verifies answers and notifications.
	SecretKey string
	// PrivateKey is the merchant's RSA key for payment maintenance, PEM of
	// PKCS#1 or PKCS#8.
	PrivateKey string
	// PublicKey is 2C2P's RSA key for payment maintenance, PEM of PKIX or of a
	// certificate.
	PublicKey string
	// BaseURL and MaintenanceURL are empty for production, or a sandbox's
	// addresses, both of them.
	BaseURL        string
	MaintenanceURL string
	// NotifyURL is where 2C2P sends its notifications, unless a request names
	// another address.
	NotifyURL string
	// Client is http.DefaultClient when nil.
	Client *http.Client
}

// LogValue keeps the keys out of logs.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(slog.String("merchant_id", c.MerchantID), slog.String("base_url", c.BaseURL))
}

// String keeps the keys out of whatever prints a Config.
func (c Config) String() string {
	return fmt.Sprintf("2c2p merchant %s at %q", c.MerchantID, c.BaseURL)
}

// GoString is String.
func (c Config) GoString() string { return c.String() }

// Provider is 2C2P.
type Provider struct {
	merchantID string
	secret     []byte
	private    *rsa.PrivateKey
	public     *rsa.PublicKey
	tokenURL   string
	inquiryURL string
	actionURL  string
	notifyURL  string
	client     *http.Client
}

var _ psp.Provider = (*Provider)(nil)

// New makes the provider, or says what its configuration lacks.
func New(config Config) (*Provider, error) {
	for _, setting := range []struct{ name, value string }{
		{"merchant id", config.MerchantID}, {"secret key", config.SecretKey}, {"private key", config.PrivateKey},
		{"2C2P public key", config.PublicKey},
	} {
		if setting.value == "" {
			return nil, fmt.Errorf("2c2p: the %s is missing", setting.name)
		}
	}
	private, err := parsePrivate(config.PrivateKey)
	if err != nil {
		return nil, errors.New("2c2p: the private key is not an RSA key in PEM, PKCS#1 or PKCS#8")
	}
	public, err := parsePublic(config.PublicKey)
	if err != nil {
		return nil, errors.New("2c2p: the 2C2P public key is not an RSA key in PEM, PKIX or a certificate")
	}
	base, maintenance, err := addresses(config)
	if err != nil {
		return nil, err
	}
	return &Provider{
		merchantID: config.MerchantID, secret: []byte(config.SecretKey), private: private, public: public,
		tokenURL: base + "/payment/4.3/paymentToken", inquiryURL: base + "/payment/4.3/paymentInquiry",
		actionURL: maintenance, notifyURL: config.NotifyURL, client: psp.NewClient(config.Client),
	}, nil
}

// addresses are production's, or both of another environment: refunds must not
// go to one and charges to the other.
func addresses(config Config) (base, maintenance string, err error) {
	if (config.BaseURL == "") != (config.MaintenanceURL == "") {
		return "", "", errors.New("2c2p: the base address and the maintenance address go together: give both or neither")
	}
	base, maintenance = productionBase, productionMaintenance
	if config.BaseURL != "" {
		base, maintenance = strings.TrimSuffix(config.BaseURL, "/"), config.MaintenanceURL
	}
	for _, setting := range []struct{ name, address, example string }{
		{"base", base, productionBase}, {"maintenance", maintenance, productionMaintenance},
	} {
		if parsed, err := url.Parse(setting.address); err != nil || parsed.Host == "" {
			return "", "", fmt.Errorf("2c2p: the %s address is not one such as %s", setting.name, setting.example)
		}
	}
	return base, maintenance, nil
}

func parsePrivate(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("is not PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read PKCS#8: %w", err)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("is not an RSA key")
	}
	return key, nil
}

func parsePublic(text string) (*rsa.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("is not PEM")
	}
	var parsed any
	if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
		parsed = certificate.PublicKey
	} else if parsed, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		return nil, fmt.Errorf("read PKIX: %w", err)
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("is not an RSA key")
	}
	return key, nil
}

// Name implements psp.Provider.
func (p *Provider) Name() string { return Name }
