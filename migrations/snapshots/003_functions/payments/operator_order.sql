-- An order and all that belongs to it, for a person.
CREATE OR REPLACE FUNCTION payments.operator_order(p_order_id text)
RETURNS jsonb
LANGUAGE plpgsql
VOLATILE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
    v_order jsonb;
BEGIN
    SELECT to_jsonb(o.*) INTO v_order FROM payments.orders AS o WHERE o.order_id = p_order_id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN v_order || jsonb_build_object(
        'items', (SELECT coalesce(jsonb_agg(to_jsonb(i.*) - 'order_id' ORDER BY i.sku), '[]')
                    FROM payments.order_items AS i WHERE i.order_id = p_order_id),
        'charges', (SELECT coalesce(jsonb_agg(to_jsonb(c.*) - ARRAY['order_id', 'merchant', 'next_action', 'fence']
                                              ORDER BY c.created_at), '[]')
                      FROM payments.charges AS c WHERE c.order_id = p_order_id),
        'refunds', (SELECT coalesce(jsonb_agg(to_jsonb(r.*) - ARRAY['order_id', 'merchant', 'fence'] ORDER BY r.created_at), '[]')
                      FROM payments.refunds AS r WHERE r.order_id = p_order_id),
        'cases', (SELECT coalesce(jsonb_agg(to_jsonb(s.*) - 'order_id' ORDER BY s.opened_at), '[]')
                    FROM payments.cases AS s WHERE s.order_id = p_order_id),
        'story', (SELECT coalesce(jsonb_agg(to_jsonb(t.*) ORDER BY t.place), '[]')
                    FROM (SELECT row_number() OVER () AS place, e.* FROM payments.order_story(p_order_id => p_order_id) AS e) AS t));
END;
$function$;

COMMENT ON FUNCTION payments.operator_order(text) IS
'For operators: an order with its items, charges, refunds, cases and its story in time order, as one JSON object; null when
there is no such order. It holds no client secret or payment link.';
