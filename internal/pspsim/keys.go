package pspsim

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Keys are both sides' development keys: the merchant's own and the providers'.
// They are made on first use and are worth nothing outside the simulator.
type Keys struct {
	// What the Alipay adapter is configured with.
	AlipayAppID              string
	AlipayMerchantPrivateKey string // PEM, PKCS#8
	AlipayPublicKey          string // PEM, PKIX

	alipayMerchant *rsa.PrivateKey
	alipayPlatform *rsa.PrivateKey
}

const keyBits = 2048

// The key files of a folder.
const (
	alipayMerchantFile = "alipay-merchant.pem"
	alipayPlatformFile = "alipay-platform.pem"
)

// NewKeys makes keys that are kept nowhere.
func NewKeys() (*Keys, error) {
	merchant, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("make the merchant's key: %w", err)
	}
	platform, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("make Alipay's key: %w", err)
	}
	return keysFrom(merchant, platform)
}

func keysFrom(merchant, platform *rsa.PrivateKey) (*Keys, error) {
	private, err := privatePEM(merchant)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&platform.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encode Alipay's public key: %w", err)
	}
	return &Keys{
		AlipayAppID:              "2021000000000001",
		AlipayMerchantPrivateKey: string(private),
		AlipayPublicKey:          string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		alipayMerchant:           merchant, alipayPlatform: platform,
	}, nil
}

// LoadOrCreateKeys reads the keys of a folder, and makes them first when the
// folder is not there. Two processes may do so at once: one of them wins.
func LoadOrCreateKeys(dir string) (*Keys, error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := createKeys(dir); err != nil {
			return nil, err
		}
	}
	merchant, err := readKey(filepath.Join(dir, alipayMerchantFile))
	if err != nil {
		return nil, err
	}
	platform, err := readKey(filepath.Join(dir, alipayPlatformFile))
	if err != nil {
		return nil, err
	}
	return keysFrom(merchant, platform)
}

// createKeys writes the keys beside the folder and then moves them into place.
func createKeys(dir string) error {
	keys, err := NewKeys()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // the folder above holds no secrets
		return fmt.Errorf("make the folder of the development keys: %w", err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "keys-")
	if err != nil {
		return fmt.Errorf("make the folder of the development keys: %w", err)
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	for name, key := range map[string]*rsa.PrivateKey{
		alipayMerchantFile: keys.alipayMerchant, alipayPlatformFile: keys.alipayPlatform,
	} {
		content, err := privatePEM(key)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(fresh, name), content, 0o600); err != nil {
			return fmt.Errorf("write a development key: %w", err)
		}
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, statErr := os.Stat(filepath.Join(dir, alipayPlatformFile)); statErr == nil {
			return nil // another process was faster
		}
		return fmt.Errorf("put the development keys in place: %w", err)
	}
	return nil
}

func privatePEM(key *rsa.PrivateKey) ([]byte, error) {
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

func readKey(path string) (*rsa.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a development key (remove its folder to make new ones): %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s is not PEM: remove its folder to make new keys", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove its folder to make new keys", path, err)
	}
	key, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is not an RSA key: remove its folder to make new keys", path)
	}
	return key, nil
}
