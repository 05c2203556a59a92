package providers

import (
	"errors"
	"net/http"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/twoctwop"
	"github.com/payonce/payonce/internal/pspsim"
)

var twoCTwoP = registration{
	variable: "PAYONCE_2C2P_MERCHANT_ID",
	fromEnvironment: func(env Environment, client *http.Client) (psp.Provider, error) {
		secretKey, errSecret := env.secret("PAYONCE_2C2P_SECRET_KEY")
		privateKey, errPrivate := env.secret("PAYONCE_2C2P_PRIVATE_KEY")
		publicKey, errPublic := env.secret("PAYONCE_2C2P_PUBLIC_KEY")
		if err := errors.Join(errSecret, errPrivate, errPublic); err != nil {
			return nil, err
		}
		return twoctwop.New(twoctwop.Config{
			Client: client, MerchantID: env("PAYONCE_2C2P_MERCHANT_ID"), SecretKey: secretKey, PrivateKey: privateKey, PublicKey: publicKey,
			BaseURL: env("PAYONCE_2C2P_BASE_URL"), MaintenanceURL: env("PAYONCE_2C2P_MAINTENANCE_URL"),
			NotifyURL: env("PAYONCE_2C2P_NOTIFY_URL"),
		})
	},
	simulated: func(keys *pspsim.Keys, simulator, _ string, client *http.Client) (psp.Provider, error) {
		return twoctwop.New(twoctwop.Config{
			Client: client, MerchantID: keys.TwoCTwoPMerchantID, SecretKey: keys.TwoCTwoPSecretKey,
			PrivateKey: keys.TwoCTwoPMerchantPrivateKey, PublicKey: keys.TwoCTwoPPublicKey,
			BaseURL: simulator + "/2c2p", MaintenanceURL: simulator + "/2c2p/PaymentAction/2.0/action",
		})
	},
}
