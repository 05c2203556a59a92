-- Lists what a person has to look at.
CREATE OR REPLACE FUNCTION payments.operator_cases(p_limit int DEFAULT 100)
RETURNS TABLE (
    case_id   bigint,
    kind      text,
    order_id  text,
    known     boolean,
    detail    jsonb,
    opened_at timestamptz
)
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    RETURN QUERY
    SELECT s.case_id, s.kind, s.order_id, EXISTS (SELECT FROM payments.orders AS o WHERE o.order_id = s.order_id), s.detail,
           s.opened_at
      FROM payments.cases AS s
     WHERE s.resolved_at IS NULL
     ORDER BY s.opened_at, s.case_id
     LIMIT p_limit;
END;
$function$;

COMMENT ON FUNCTION payments.operator_cases(int) IS
'For operators: the p_limit oldest open cases; known tells whether their order is one of ours.';
