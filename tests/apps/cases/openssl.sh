# programs: openssl
# Keys and signatures differ from run to run; that they fit together does not.
awk 'BEGIN { for (i = 0; i < 200000; i++) print i * 7919 % 10007 }' >text
openssl dgst -sha256 -r text
openssl dgst -sha3-512 -r text
openssl enc -aes-256-cbc -pbkdf2 -S 0011223344556677 -pass pass:word -in text -out text.enc
openssl dgst -sha256 -r text.enc
openssl enc -d -aes-256-cbc -pbkdf2 -S 0011223344556677 -pass pass:word -in text.enc | cmp - text

openssl genrsa -out rsa.pem 2048 2>/dev/null
openssl rsa -in rsa.pem -check -noout
openssl rsa -in rsa.pem -pubout -out rsa.pub 2>/dev/null
openssl dgst -sha256 -sign rsa.pem -out signature text
openssl dgst -sha256 -verify rsa.pub -signature signature text

openssl ecparam -name prime256v1 -genkey -noout -out ca.key
openssl req -x509 -new -key ca.key -subj '/CN=Test CA/O=Tests' -days 30 -out ca.pem
openssl genpkey -algorithm ed25519 -out leaf.key
openssl req -new -key leaf.key -subj /CN=leaf.example.org -out leaf.csr
openssl x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -out leaf.pem 2>/dev/null
openssl verify -CAfile ca.pem leaf.pem
openssl x509 -in leaf.pem -noout -subject -issuer -text |
	grep -E '^(subject|issuer)=|Public Key Algorithm|Signature Algorithm' | sort -u
openssl cms -encrypt -aes256 -in text -outform DER -out text.cms ca.pem 2>/dev/null ||
	echo "cms: this key cannot"
openssl pkcs12 -export -inkey leaf.key -in leaf.pem -passout pass:word -out leaf.p12
openssl pkcs12 -in leaf.p12 -passin pass:word -nodes 2>/dev/null | openssl x509 -noout -subject
for i in 1 2 3 4 5 6 7 8; do
	openssl prime -generate -bits 256 | grep -c '^[0-9]*$'
done
