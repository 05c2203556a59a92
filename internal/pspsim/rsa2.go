package pspsim

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// signSHA256 signs as Alipay (RSA2) and WeChat Pay (SHA256-RSA2048) do:
// RSASSA-PKCS1-v1_5 over SHA-256, in base64.
func signSHA256(key *rsa.PrivateKey, text string) (string, error) {
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return base64.StdEncoding.EncodeToString(signature), nil
}

func verifySHA256(key *rsa.PublicKey, text, signature string) bool {
	decoded, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return false
	}
	digest := sha256.Sum256([]byte(text))
	return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], decoded) == nil
}
