package pspsim

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Keys are both sides' development keys: the merchant's own and the providers'.
// They are made on first use and are worth nothing outside the simulator.
// Private keys are PEM of PKCS#8, public keys PEM of PKIX.
type Keys struct {
	// What the Alipay adapter is configured with.
	AlipayAppID              string
	AlipaySellerID           string
	AlipayMerchantPrivateKey string
	AlipayPublicKey          string

	// What the WeChat Pay adapter is configured with: a merchant that verifies
	// with WeChat Pay's public key, not with platform certificates.
	WeChatAppID              string
	WeChatMchID              string
	WeChatMerchantSerial     string // of the merchant's certificate
	WeChatMerchantPrivateKey string
	WeChatAPIv3Key           string // 32 bytes
	WeChatPublicKeyID        string // PUB_KEY_ID_…
	WeChatPublicKey          string

	// What the Stripe adapter is configured with.
	StripeSecretKey     string // sk_test_…
	StripeWebhookSecret string // whsec_…

	// What the 2C2P adapter is configured with. The secret key signs payment
	// requests and notifications, the RSA keys are for payment maintenance:
	// each side signs with its own and encrypts to the other's.
	TwoCTwoPMerchantID         string
	TwoCTwoPSecretKey          string
	TwoCTwoPMerchantPrivateKey string
	TwoCTwoPPublicKey          string

	alipayMerchant, alipayPlatform     *rsa.PrivateKey
	wechatMerchant, wechatPlatform     *rsa.PrivateKey
	twoctwopMerchant, twoctwopPlatform *rsa.PrivateKey
}

const keyBits = 2048

// keyFile is one key in the folder: an RSA key, or a secret of random
// hexadecimal digits behind a prefix.
type keyFile struct {
	name   string
	rsa    func(*Keys) **rsa.PrivateKey
	secret func(*Keys) *string
	prefix string
}

// secretBytes makes secrets of 32 digits: the length that WeChat Pay wants of
// an APIv3 key (pay.weixin.qq.com/doc/v3/merchant/4012071382).
const secretBytes = 16

var keyFiles = []keyFile{
	{name: "alipay-merchant.pem", rsa: func(k *Keys) **rsa.PrivateKey { return &k.alipayMerchant }},
	{name: "alipay-platform.pem", rsa: func(k *Keys) **rsa.PrivateKey { return &k.alipayPlatform }},
	{name: "wechat-merchant.pem", rsa: func(k *Keys) **rsa.PrivateKey { return &k.wechatMerchant }},
	{name: "wechat-platform.pem", rsa: func(k *Keys) **rsa.PrivateKey { return &k.wechatPlatform }},
	{name: "2c2p-merchant.pem", rsa: func(k *Keys) **rsa.PrivateKey { return &k.twoctwopMerchant }},
	{name: "2c2p-platform.pem", rsa: func(k *Keys) **rsa.PrivateKey { return &k.twoctwopPlatform }},
	{name: "wechat-api-v3-key.txt", secret: func(k *Keys) *string { return &k.WeChatAPIv3Key }},
	{name: "stripe-secret-key.txt", secret: func(k *Keys) *string { return &k.StripeSecretKey }, prefix: "sk_test_"},
	{name: "stripe-webhook-secret.txt", secret: func(k *Keys) *string { return &k.StripeWebhookSecret }, prefix: "whsec_"},
	{name: "2c2p-secret-key.txt", secret: func(k *Keys) *string { return &k.TwoCTwoPSecretKey }},
}

// NewKeys makes keys that are kept nowhere.
func NewKeys() (*Keys, error) {
	return collectKeys(keyFile.generate)
}

// LoadOrCreateKeys reads the keys of a folder, and makes those that are not
// there yet. Processes may do so at once: all of them get the same keys. The
// providers' public keys are written besides, for a server that reads files.
func LoadOrCreateKeys(dir string) (*Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the development keys: %w", err)
	}
	keys, err := collectKeys(func(f keyFile) ([]byte, error) { return f.loadOrCreate(dir) })
	if err != nil {
		return nil, err
	}
	return keys, keys.writePublic(dir)
}

func (k *Keys) writePublic(dir string) error {
	for name, key := range map[string]string{
		"alipay-public.pem": k.AlipayPublicKey, "wechat-public.pem": k.WeChatPublicKey, "2c2p-public.pem": k.TwoCTwoPPublicKey,
	} {
		temporary, err := writeTemporary(dir, []byte(key))
		if err != nil {
			return err
		}
		if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("put a provider's public key in place: %w", err)
		}
	}
	return nil
}

// collectKeys gets the content of every key file at the same time, since an
// RSA key takes its time to make.
func collectKeys(content func(keyFile) ([]byte, error)) (*Keys, error) {
	keys := &Keys{
		AlipayAppID: "2021000000000001", AlipaySellerID: "2088000000000002",
		WeChatAppID: "wx0000000000000001", WeChatMchID: "1900000001",
		TwoCTwoPMerchantID: "JT01",
	}
	problems := make([]error, len(keyFiles))
	var parts sync.WaitGroup
	for i, file := range keyFiles {
		parts.Go(func() {
			text, err := content(file)
			if err == nil {
				err = file.parse(keys, text)
			}
			problems[i] = err
		})
	}
	parts.Wait()
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return keys, keys.encode()
}

// encode fills in what follows from the parsed keys.
func (k *Keys) encode() error {
	var problems []error
	private := func(key *rsa.PrivateKey) string {
		text, err := privatePEM(key)
		problems = append(problems, err)
		return string(text)
	}
	public := func(key *rsa.PrivateKey) string {
		text, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		problems = append(problems, err)
		return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: text}))
	}
	k.AlipayMerchantPrivateKey, k.AlipayPublicKey = private(k.alipayMerchant), public(k.alipayPlatform)
	k.WeChatMerchantPrivateKey, k.WeChatPublicKey = private(k.wechatMerchant), public(k.wechatPlatform)
	k.TwoCTwoPMerchantPrivateKey, k.TwoCTwoPPublicKey = private(k.twoctwopMerchant), public(k.twoctwopPlatform)

	digits := strings.ToUpper(fingerprint(public(k.wechatMerchant)))
	k.WeChatMerchantSerial = digits[:40]
	k.WeChatPublicKeyID = "PUB_KEY_ID_" + strings.ToUpper(fingerprint(k.WeChatPublicKey))[:32]
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("encode the development keys: %w", err)
	}
	return nil
}

// fingerprint gives numbers that follow from a text: equal texts, equal numbers.
func fingerprint(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])
}

// generate makes the content of a new key file.
func (f keyFile) generate() ([]byte, error) {
	if f.rsa != nil {
		key, err := rsa.GenerateKey(rand.Reader, keyBits)
		if err != nil {
			return nil, fmt.Errorf("make the development key %s: %w", f.name, err)
		}
		return privatePEM(key)
	}
	secret := make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("make the development key %s: %w", f.name, err)
	}
	return []byte(f.prefix + hex.EncodeToString(secret) + "\n"), nil
}

// parse puts the content of a key file into its place.
func (f keyFile) parse(keys *Keys, content []byte) error {
	if f.rsa != nil {
		key, err := parsePrivate(content)
		if err != nil {
			return fmt.Errorf("development key %s %w: remove the file to get a new one", f.name, err)
		}
		*f.rsa(keys) = key
		return nil
	}
	secret := strings.TrimSpace(string(content))
	if len(secret) != len(f.prefix)+2*secretBytes || !strings.HasPrefix(secret, f.prefix) {
		return fmt.Errorf("development key %s is not %q and %d hexadecimal digits: remove the file to get a new one",
			f.name, f.prefix, 2*secretBytes)
	}
	*f.secret(keys) = secret
	return nil
}

// loadOrCreate reads the key file, or puts a new one in its place. A hard link
// never replaces a file, so of two processes at once one makes the key and the
// other reads it, complete.
func (f keyFile) loadOrCreate(dir string) ([]byte, error) {
	path := filepath.Join(dir, f.name)
	content, err := os.ReadFile(path) //nolint:gosec // the operator names the folder
	if !errors.Is(err, fs.ErrNotExist) {
		return content, wrapped(err, "read a development key")
	}
	fresh, err := f.generate()
	if err != nil {
		return nil, err
	}
	temporary, err := writeTemporary(dir, fresh)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(temporary) }()
	if err := os.Link(temporary, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("put a development key in place: %w", err)
	}
	content, err = os.ReadFile(path) //nolint:gosec // the operator names the folder
	return content, wrapped(err, "read a development key")
}

func writeTemporary(dir string, content []byte) (string, error) {
	file, err := os.CreateTemp(dir, ".new-key-") // made with mode 0600
	if err != nil {
		return "", fmt.Errorf("write a development key: %w", err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name())
		return "", fmt.Errorf("write a development key: %w", err)
	}
	return file.Name(), nil
}

func wrapped(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func privatePEM(key *rsa.PrivateKey) ([]byte, error) {
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

func parsePrivate(content []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("is not PKCS#8")
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("is not an RSA key")
	}
	return key, nil
}
