package wechat

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wechatpay-apiv3/wechatpay-go/core/auth/verifiers"
)

// A signature with the key that verifies it, from the tests of WeChat Pay's
// own SDK: wechatpay-apiv3/wechatpay-go v0.2.21,
// core/auth/verifiers/sha256withrsa_pubkey_verifier_test.go.
const (
	publishedKeyID = "F5765756002FDD77"
	publishedKey   = `-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA2VCTd91fnUn73Xy9DLvt
/V62TVxRTEEstVdeRaZ3B3leO0pldE806mXO4RwdHXagHQ4vGeZN0yqm++rDsGK+
U3AH7kejyD2pXshNP9Cq5YwbptiLGtjcquw4HNxJQUOmDeJf2vg6byms9RUipiq4
SzbJKqJFlUpbuIPDpSpWz10PYmyCNeDGUUK65E5h2B834uxl1zNLYQCrkdBzb8oU
xwYeP5a2DNxmjL5lsJML7DGr5znsevnoqGRwTm9fxCGfy8wus7hwKz6clt3Whmmd
a7UAdb1c08hEQFVRbF14AR73xbnd8N0obCWJPCbzMCtkaSef4FdEEgEXJiw0VAJT
8wIDAQAB
-----END PUBLIC KEY-----`
	publishedMessage   = "source"
	publishedSignature = "BKyAfU4iMCuvXMXS0Wzam3V/cnxZ+JaqigPM5OhljS2iOT95OO6Fsuml2JkFANJU9K6q9bLlDhPXuoVz+pp4hAm6pHU4ld815U4j" +
		"sKu1RkyaII+1CYBUYC8TK0XtJ8FwUXXz8vZHh58rrAVN1XwNyvD1vfpxrMT4SL536GLwvpUHlCqIMzoZUguLli/K8V29QiOhuH6IEqLNJn8e9b3nwNcQ7be3" +
		"CzYGpDAKBfDGPCqCv8Rw5zndhlffk2FEA70G4hvMwe51qMN/RAJbknXG23bSlObuTCN7Ndj1aJGH6/L+hdwfLpUtJm4QYVazzW7DFD27EpSQEqA8bX9+8m1r" +
		"Lg=="
)

func TestPublishedSignature(t *testing.T) {
	t.Parallel()
	key, err := readPublicKey(publishedKey)
	require.NoError(t, err)
	verifier := verifiers.NewSHA256WithRSAPubkeyVerifier(publishedKeyID, *key)
	require.NoError(t, verifier.Verify(t.Context(), publishedKeyID, publishedMessage, publishedSignature))
	require.Error(t, verifier.Verify(t.Context(), publishedKeyID, publishedMessage+"\n", publishedSignature))
	require.Error(t, verifier.Verify(t.Context(), "another", publishedMessage, publishedSignature))
	require.Error(t, verifier.Verify(t.Context(), publishedKeyID, publishedMessage, probeSignature+publishedSignature))
}

// A sealed text with its key, from the same SDK's utils/aes_test.go.
func TestPublishedSealedText(t *testing.T) {
	t.Parallel()
	sealed, err := base64.StdEncoding.DecodeString("FsdXzxryWfKwvLJKf8LG/ToRPTRh8RN9wROC")
	require.NoError(t, err)
	const nonce, associated = "wCq51qZv4Yfg", "Dl56FrqWQJF1t9LtC3vEUsniZKvbqdR8"
	for key, opens := range map[string]bool{"testAPIv3Key0000": true, "testAPIv3Key1111": false} {
		opener, err := newAEAD(key)
		require.NoError(t, err)
		plain, err := opener.Open(nil, []byte(nonce), sealed, []byte(associated))
		require.Equal(t, opens, err == nil)
		if opens {
			require.Equal(t, "Hello World", string(plain))
		}
		for _, wrong := range []string{"", nonce[1:], nonce + "0"} {
			_, err = opener.Open(nil, []byte(wrong), sealed, []byte(associated))
			require.ErrorContains(t, err, "nonce", "and no panic")
		}
	}
	_, err = newAEAD("not an AES key")
	require.Error(t, err)
}
