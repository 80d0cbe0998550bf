module loop

go 1.19

require kvrt.dev/kvrt v0.0.0

replace kvrt.dev/kvrt => ../../../../bindings/go
