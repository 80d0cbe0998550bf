module kvrt.dev/kvrt

go 1.19
