// Package wechat charges through WeChat Pay's API v3, as a merchant that
// verifies with WeChat Pay's public key and not with platform certificates.
//
// The order id is the out_trade_no and the refund id the out_refund_no, so
// that WeChat Pay itself refuses to move the same money twice. The numbers
// after "page" in the comments are those below
// pay.weixin.qq.com/doc/v3/merchant/.
package wechat

import (
	"context"
	"crypto/cipher"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/wechatpay-apiv3/wechatpay-go/core"
	"github.com/wechatpay-apiv3/wechatpay-go/core/auth/validators"
	"github.com/wechatpay-apiv3/wechatpay-go/core/auth/verifiers"
	"github.com/wechatpay-apiv3/wechatpay-go/core/option"
	"github.com/wechatpay-apiv3/wechatpay-go/utils"

	"github.com/payonce/payonce/internal/psp"
)

// Name is the provider's name in the API.
const Name = "wechat"

// apiV3KeyBytes is the length of an APIv3 key (page 4012071382).
const apiV3KeyBytes = 32

// maxNotifyURL is the length of a notify_url in bytes (page 4012791877).
const maxNotifyURL = 255

// Config is one merchant with one application.
type Config struct {
	MchID string
	AppID string
	// APIv3Key decrypts notifications: 32 bytes, set on the merchant platform.
	APIv3Key string
	// PrivateKey is that of the merchant's API certificate, PEM of PKCS#8, and
	// CertSerial the certificate's serial number.
	PrivateKey string
	CertSerial string
	// PublicKey is WeChat Pay's key, PEM of PKIX, which its answers and
	// notifications are verified with, and PublicKeyID its id (PUB_KEY_ID_…).
	PublicKey   string
	PublicKeyID string
	// BaseURL is empty for WeChat Pay's own server. A path stands before WeChat
	// Pay's paths and is not signed.
	BaseURL string
	// NotifyURL is where WeChat Pay sends its notifications, unless a request
	// names another address.
	NotifyURL string
	// Client is http.DefaultClient when nil.
	Client *http.Client
}

// LogValue keeps the keys out of logs.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(slog.String("mchid", c.MchID), slog.String("appid", c.AppID), slog.String("base_url", c.BaseURL))
}

// String keeps the keys out of whatever prints a Config.
func (c Config) String() string {
	return fmt.Sprintf("wechat merchant %s, app %s at %q", c.MchID, c.AppID, c.BaseURL)
}

// GoString is String.
func (c Config) GoString() string { return c.String() }

// missing says what the configuration lacks.
func (c Config) missing() error {
	for _, setting := range []struct{ name, value string }{
		{"merchant id", c.MchID}, {"app id", c.AppID}, {"APIv3 key", c.APIv3Key}, {"private key", c.PrivateKey},
		{"certificate serial number", c.CertSerial}, {"WeChat Pay public key", c.PublicKey},
		{"WeChat Pay public key id", c.PublicKeyID}, {"notify URL", c.NotifyURL},
	} {
		if setting.value == "" {
			return fmt.Errorf("wechat: the %s is missing", setting.name)
		}
	}
	if len(c.APIv3Key) != apiV3KeyBytes {
		return fmt.Errorf("wechat: the APIv3 key has %d bytes and not %d", len(c.APIv3Key), apiV3KeyBytes)
	}
	if !isNotifyURL(c.NotifyURL) {
		return errors.New("wechat: the notify URL is not an http or https address of up to 255 characters without a query")
	}
	return nil
}

// isNotifyURL holds the rule of page 4012791877: no parameters.
func isNotifyURL(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http") && parsed.Host != "" &&
		len(address) <= maxNotifyURL && !strings.ContainsAny(address, "?#")
}

// Provider is WeChat Pay.
type Provider struct {
	client     *core.Client
	answers    *validators.WechatPayResponseValidator
	signatures *validators.WechatPayNotifyValidator
	opener     cipher.AEAD
	config     Config
}

var _ psp.Provider = (*Provider)(nil)

// New makes the provider, or says what its configuration lacks.
func New(config Config) (*Provider, error) {
	if err := config.missing(); err != nil {
		return nil, err
	}
	privateKey, errPrivate := readPrivateKey(config.PrivateKey)
	publicKey, errPublic := readPublicKey(config.PublicKey)
	if err := errors.Join(errPrivate, errPublic); err != nil {
		return nil, err
	}
	httpClient, err := redirected(config.Client, config.BaseURL)
	if err != nil {
		return nil, err
	}
	client, err := core.NewClient(context.Background(),
		option.WithWechatPayPublicKeyAuthCipher(config.MchID, config.CertSerial, privateKey, config.PublicKeyID, publicKey),
		option.WithHTTPClient(psp.NewClient(httpClient)))
	if err != nil {
		return nil, errors.New("wechat: the SDK does not take the configuration")
	}
	opener, err := newAEAD(config.APIv3Key)
	if err != nil {
		return nil, err
	}
	verifier := verifiers.NewSHA256WithRSAPubkeyVerifier(config.PublicKeyID, *publicKey)
	return &Provider{
		client: client, answers: validators.NewWechatPayResponseValidator(verifier),
		signatures: validators.NewWechatPayNotifyValidator(verifier), opener: opener, config: config,
	}, nil
}

// readPrivateKey and readPublicKey leave the SDK's errors out: one of them
// holds the text of the key.
func readPrivateKey(text string) (*rsa.PrivateKey, error) {
	key, err := utils.LoadPrivateKey(text)
	if err != nil {
		return nil, errors.New("wechat: the private key is not an RSA key in PEM of PKCS#8")
	}
	return key, nil
}

func readPublicKey(text string) (*rsa.PublicKey, error) {
	key, err := utils.LoadPublicKey(text)
	if err != nil {
		return nil, errors.New("wechat: the WeChat Pay public key is not an RSA key in PEM of PKIX")
	}
	return key, nil
}

// Name implements psp.Provider.
func (p *Provider) Name() string { return Name }

func (p *Provider) notifyURL(requested string) string {
	if requested != "" {
		return requested
	}
	return p.config.NotifyURL
}
