{{ template "guard/install.sql" . }}
{{ template "payments/install.sql" . }}
