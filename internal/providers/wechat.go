package providers

import (
	"errors"
	"net/http"

	"github.com/payonce/payonce/internal/psp"
	"github.com/payonce/payonce/internal/psp/wechat"
	"github.com/payonce/payonce/internal/pspsim"
)

var wechatPay = registration{
	variable: "PAYONCE_WECHAT_MCH_ID",
	fromEnvironment: func(env Environment, client *http.Client) (psp.Provider, error) {
		apiV3Key, errKey := env.secret("PAYONCE_WECHAT_API_V3_KEY")
		privateKey, errPrivate := env.secret("PAYONCE_WECHAT_PRIVATE_KEY")
		publicKey, errPublic := env.secret("PAYONCE_WECHAT_PUBLIC_KEY")
		if err := errors.Join(errKey, errPrivate, errPublic); err != nil {
			return nil, err
		}
		return wechat.New(wechat.Config{
			Client: client, MchID: env("PAYONCE_WECHAT_MCH_ID"), AppID: env("PAYONCE_WECHAT_APP_ID"), APIv3Key: apiV3Key,
			PrivateKey: privateKey, CertSerial: env("PAYONCE_WECHAT_CERT_SERIAL"),
			PublicKey: publicKey, PublicKeyID: env("PAYONCE_WECHAT_PUBLIC_KEY_ID"),
			BaseURL: env("PAYONCE_WECHAT_BASE_URL"), NotifyURL: env("PAYONCE_WECHAT_NOTIFY_URL"),
		})
	},
	simulated: func(keys *pspsim.Keys, simulator, server string, client *http.Client) (psp.Provider, error) {
		return wechat.New(wechat.Config{
			Client: client, MchID: keys.WeChatMchID, AppID: keys.WeChatAppID, APIv3Key: keys.WeChatAPIv3Key,
			PrivateKey: keys.WeChatMerchantPrivateKey, CertSerial: keys.WeChatMerchantSerial,
			PublicKey: keys.WeChatPublicKey, PublicKeyID: keys.WeChatPublicKeyID,
			BaseURL: simulator + "/wechat", NotifyURL: server + "/webhooks/" + wechat.Name,
		})
	},
}
