package chaos

// Tampered is a run whose database is changed by SQL before it begins.
func Tampered(options Options, sql string) Options {
	options.tamper = sql
	return options
}
