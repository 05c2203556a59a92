package wechat

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/wechatpay-apiv3/wechatpay-go/core"
	"github.com/wechatpay-apiv3/wechatpay-go/services/payments/app"
	"github.com/wechatpay-apiv3/wechatpay-go/services/payments/h5"
	"github.com/wechatpay-apiv3/wechatpay-go/services/payments/jsapi"
	"github.com/wechatpay-apiv3/wechatpay-go/services/payments/native"
	"github.com/wechatpay-apiv3/wechatpay-go/utils"

	"github.com/payonce/payonce/internal/psp"
)

// errNothingToGoOnWith is the error of a success without what the buyer needs.
var errNothingToGoOnWith = errors.New("wechat: the answer does not say how the buyer pays")

// prepay opens the order and returns what the client needs to go on. The SDK
// has one type of request for each way of paying.
func (p *Provider) prepay(ctx context.Context, request psp.ChargeRequest) (map[string]string, *core.APIResult, error) {
	expires, err := expiry(request)
	if err != nil {
		return nil, nil, err
	}
	switch methodOf(request) {
	case methodJSAPI:
		return p.prepayJSAPI(ctx, request, expires)
	case methodApp:
		return p.prepayApp(ctx, request, expires)
	case methodH5:
		return p.prepayH5(ctx, request, expires)
	default:
		return p.prepayNative(ctx, request, expires)
	}
}

func (p *Provider) prepayNative(
	ctx context.Context, request psp.ChargeRequest, expires *time.Time,
) (map[string]string, *core.APIResult, error) {
	order := native.PrepayRequest{
		Appid: &p.config.AppID, Mchid: &p.config.MchID, OutTradeNo: &request.OrderID, TimeExpire: expires,
		Description: core.String(subjectOf(request)), NotifyUrl: core.String(p.notifyURL(request.NotifyURL)),
		Attach: given(request, "attach"), GoodsTag: given(request, "goods_tag"),
		Amount: &native.Amount{Total: &request.Money.Amount, Currency: &request.Money.Currency},
	}
	if ip := given(request, fieldClientIP); ip != nil {
		order.SceneInfo = &native.SceneInfo{PayerClientIp: ip, DeviceId: given(request, "device_id")}
	}
	service := native.NativeApiService{Client: p.client}
	told, answer, err := service.Prepay(ctx, order)
	if err != nil {
		return nil, answer, err
	}
	return only("code_url", told.CodeUrl, answer)
}

func (p *Provider) prepayH5(
	ctx context.Context, request psp.ChargeRequest, expires *time.Time,
) (map[string]string, *core.APIResult, error) {
	service := h5.H5ApiService{Client: p.client}
	told, answer, err := service.Prepay(ctx, h5.PrepayRequest{
		Appid: &p.config.AppID, Mchid: &p.config.MchID, OutTradeNo: &request.OrderID, TimeExpire: expires,
		Description: core.String(subjectOf(request)), NotifyUrl: core.String(p.notifyURL(request.NotifyURL)),
		Attach: given(request, "attach"), GoodsTag: given(request, "goods_tag"),
		Amount: &h5.Amount{Total: &request.Money.Amount, Currency: &request.Money.Currency},
		SceneInfo: &h5.SceneInfo{
			PayerClientIp: given(request, fieldClientIP), DeviceId: given(request, "device_id"),
			H5Info: &h5.H5Info{Type: given(request, fieldH5Type)},
		},
	})
	if err != nil {
		return nil, answer, err
	}
	return only("h5_url", told.H5Url, answer)
}

func (p *Provider) prepayJSAPI(
	ctx context.Context, request psp.ChargeRequest, expires *time.Time,
) (map[string]string, *core.APIResult, error) {
	order := jsapi.PrepayRequest{
		Appid: &p.config.AppID, Mchid: &p.config.MchID, OutTradeNo: &request.OrderID, TimeExpire: expires,
		Description: core.String(subjectOf(request)), NotifyUrl: core.String(p.notifyURL(request.NotifyURL)),
		Attach: given(request, "attach"), GoodsTag: given(request, "goods_tag"),
		Amount: &jsapi.Amount{Total: &request.Money.Amount, Currency: &request.Money.Currency},
		Payer:  &jsapi.Payer{Openid: given(request, fieldOpenID)},
	}
	if ip := given(request, fieldClientIP); ip != nil {
		order.SceneInfo = &jsapi.SceneInfo{PayerClientIp: ip, DeviceId: given(request, "device_id")}
	}
	service := jsapi.JsapiApiService{Client: p.client}
	told, answer, err := service.Prepay(ctx, order)
	if err != nil {
		return nil, answer, err
	}
	next, answer, err := only("prepay_id", told.PrepayId, answer)
	if err != nil {
		return nil, answer, err
	}
	next["appId"], next["signType"], next["package"] = p.config.AppID, "RSA", "prepay_id="+next["prepay_id"]
	return next, answer, p.signForClient(ctx, next, names{
		timestamp: "timeStamp", nonce: "nonceStr", signed: "package", signature: "paySign",
	})
}

func (p *Provider) prepayApp(
	ctx context.Context, request psp.ChargeRequest, expires *time.Time,
) (map[string]string, *core.APIResult, error) {
	order := app.PrepayRequest{
		Appid: &p.config.AppID, Mchid: &p.config.MchID, OutTradeNo: &request.OrderID, TimeExpire: expires,
		Description: core.String(subjectOf(request)), NotifyUrl: core.String(p.notifyURL(request.NotifyURL)),
		Attach: given(request, "attach"), GoodsTag: given(request, "goods_tag"),
		Amount: &app.Amount{Total: &request.Money.Amount, Currency: &request.Money.Currency},
	}
	if ip := given(request, fieldClientIP); ip != nil {
		order.SceneInfo = &app.SceneInfo{PayerClientIp: ip, DeviceId: given(request, "device_id")}
	}
	service := app.AppApiService{Client: p.client}
	told, answer, err := service.Prepay(ctx, order)
	if err != nil {
		return nil, answer, err
	}
	next, answer, err := only("prepay_id", told.PrepayId, answer)
	if err != nil {
		return nil, answer, err
	}
	next["appid"], next["partnerid"], next["prepayid"] = p.config.AppID, p.config.MchID, next["prepay_id"]
	next["package"] = "Sign=WXPay"
	return next, answer, p.signForClient(ctx, next, names{
		timestamp: "timestamp", nonce: "noncestr", signed: "prepayid", signature: "sign",
	})
}

// given is a field of the request, or nil where it has none.
func given(request psp.ChargeRequest, name string) *string {
	if value := request.Fields[name]; value != "" {
		return &value
	}
	return nil
}

// only is what the client needs where that is one value.
func only(name string, value *string, answer *core.APIResult) (map[string]string, *core.APIResult, error) {
	if text(value) == "" {
		return nil, answer, errNothingToGoOnWith
	}
	return map[string]string{name: *value}, answer, nil
}

// names are what one way of paying calls the parts of the client's signature.
type names struct{ timestamp, nonce, signed, signature string }

// signForClient adds what the client hands WeChat itself, signed with the
// merchant's key, which the client must not have (pages 4012791857 and 4012365339 for JSAPI,
// 4013070351 and 4012365340 for apps): app id, timestamp, nonce and one more value, a line
// each. The SDK's own way of doing so panics on an answer without a prepay_id.
func (p *Provider) signForClient(ctx context.Context, next map[string]string, called names) error {
	nonce, err := utils.GenerateNonce()
	if err != nil {
		return fmt.Errorf("wechat: make a nonce: %w", err)
	}
	next[called.timestamp], next[called.nonce] = strconv.FormatInt(time.Now().Unix(), 10), nonce
	signed, err := p.client.Sign(ctx, p.config.AppID+"\n"+next[called.timestamp]+"\n"+nonce+"\n"+next[called.signed]+"\n")
	if err != nil {
		return fmt.Errorf("wechat: sign for the client: %w", err)
	}
	next[called.signature] = signed.Signature
	return nil
}
