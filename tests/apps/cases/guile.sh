# programs: guile
# Its garbage collector reads the data of every library.
export GUILE_AUTO_COMPILE=0
guile -c '
(define (make n) (let loop ((i 0) (l (list))) (if (= i n) l (loop (+ i 1) (cons (make-vector 20 i) l)))))
(define all (make 20000))
(gc) (gc)
(display (apply + (map (lambda (v) (vector-ref v 7)) all))) (newline)
(display (length (make 50000))) (newline)'
